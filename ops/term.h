// Operators on values, written as formulas: a decomposition (OpDef::decomposition) then reads like the functor.
#pragma once

#include <limits>

#include "ops/compose.h"

namespace amp {

struct Term {
  Term(Builder& builder, ValueId value) : b(&builder), v(value) {}
  operator ValueId() const { return v; }

  // Returns the result of the named operator on this value.
  Term to(const char* op, Attrs attrs = {}) const { return {*b, b->op(op, {v}, std::move(attrs))}; }
  // Sum and mean over axes, which are kept with extent 1.
  Term sum(std::vector<int64_t> axes) const { return {*b, b->reduce_sum(v, std::move(axes), true)}; }
  Term mean(const std::vector<int64_t>& axes) const { return {*b, amp::mean(*b, v, axes)}; }
  Term shaped(Dims dims) const { return {*b, b->reshape(v, std::move(dims))}; }
  Term at_most(double k) const { return to("Clip", {{"max", k}}); }
  const Dims& dims() const { return b->dims(v); }
  Term like(double k) const { return {*b, b->scalar(k, b->dtype(v))}; }  // a scalar of the same type

  Builder* b;
  ValueId v;
};

inline Term binary(const char* op, Term x, Term y) { return {*x.b, x.b->op(op, {x.v, y.v})}; }

inline Term operator+(Term x, Term y) { return binary("Add", x, y); }
inline Term operator-(Term x, Term y) { return binary("Sub", x, y); }
inline Term operator*(Term x, Term y) { return binary("Mul", x, y); }
inline Term operator/(Term x, Term y) { return binary("Div", x, y); }
inline Term operator-(Term x) { return x.to("Neg"); }
inline Term operator+(double k, Term x) { return x.like(k) + x; }
inline Term operator+(Term x, double k) { return x + x.like(k); }
inline Term operator-(double k, Term x) { return x.like(k) - x; }
inline Term operator-(Term x, double k) { return x - x.like(k); }
inline Term operator*(double k, Term x) { return x.like(k) * x; }
inline Term operator*(Term x, double k) { return x * x.like(k); }
inline Term operator/(Term x, double k) { return x / x.like(k); }

// Comparisons, and operators on truth values.
inline Term operator>(Term x, double k) { return binary("Greater", x, x.like(k)); }
inline Term operator<(Term x, double k) { return binary("Less", x, x.like(k)); }
inline Term operator>=(Term x, double k) { return binary("GreaterOrEqual", x, x.like(k)); }
inline Term operator<=(Term x, double k) { return binary("LessOrEqual", x, x.like(k)); }
inline Term operator==(Term x, double k) { return binary("Equal", x, x.like(k)); }
inline Term both(Term x, Term y) { return binary("And", x, y); }

inline Term where(Term condition, Term x, Term y) { return {*x.b, x.b->op("Where", {condition, x, y})}; }
inline Term where(Term condition, Term x, double k) { return where(condition, x, x.like(k)); }

}  // namespace amp
