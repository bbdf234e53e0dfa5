// Parses and prints losses in the syntax of --loss.
//   cross_entropy,label_smoothing=0.1,mse,output=y,weight=0.5   A word without '=' starts a loss; the others are its
//                                                               parameters. Several values: class_weights=1:2:0.5, or
//                                                               by class name spam=2:ham=1; class_weights=balanced.
//   cross_entropy,gradient_penalty(x)=10                        A loss of a gradient: input=x,weight=10.
//   [{"kind": "mse", "output": "y", "weight": 0.5}]             JSON: one object or an array of them.
//   losses.json                                                 A file with such JSON.
// Throws E_LOSS (Exit::usage) with kind, parameter and the nearest name.
#pragma once

#include <string>
#include <vector>

#include "trainer/losses/losses.h"

namespace amp {

std::vector<LossSpec> parse_losses(const std::vector<std::string>& texts);
std::string loss_json(const LossSpec& spec);  // kind, outputs and non-default values; parse_losses() reads it
std::string describe(const LossSpec& spec);   // for logs: "0.5 x mse of 'y' against 'target'"

}  // namespace amp
