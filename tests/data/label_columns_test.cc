// Labels in one column per class.
#include "data/label_columns.h"

#include <catch2/catch_all.hpp>
#include <fstream>

#include "data/labels.h"
#include "tests/errors.h"
#include "tests/support.h"

using namespace amp;
using namespace amp::test;
using Words = std::vector<std::string>;

namespace {

Table table_of(const TempDir& f, const std::string& text, const std::string& name = "t.csv") {
  std::ofstream(f / name) << text;
  return Table::read(f / name);
}

}  // namespace

TEST_CASE("columns of 0 and 1 become one column of lists", "[label_columns]") {
  const TempDir f;
  for (const char* text : {"text,toxic,insult,id\nx,1,0,7\ny,0,0,8\nz,1,1,9\n",
                           "text,toxic,insult,id\nx,1.0,0.0,7\ny,0.0,0.0,8\nz,1.0,1.0,9\n",
                           "insult,id,toxic,text\nFalse,7,True,x\nFALSE,8,false,y\n true ,9,TRUE,z\n"}) {
    INFO(text);
    Table t = table_of(f, text);
    join_label_columns(t, "toxic,insult");
    CHECK(label_sets(t, "toxic,insult") == std::vector<Words>{{"toxic"}, {}, {"toxic", "insult"}});
    CHECK(joined_labels(t, "toxic,insult") == Words{"toxic", "insult"});
    CHECK(t.text(2, t.column("text")) == "z");
    CHECK(t.text(1, t.column("id")) == "8");
  }
  Table lines =
      table_of(f, "{\"text\": \"x\", \"a b\": true, \"c\": 0}\n{\"text\": \"y\", \"a b\": 0, \"c\": 1}\n", "t.jsonl");
  join_label_columns(lines, "c,a b");
  CHECK(label_sets(lines, "c,a b") == std::vector<Words>{{"a b"}, {"c"}});
}

TEST_CASE("what are no columns of labels", "[label_columns]") {
  const TempDir f;
  Table whole = table_of(f, "text,\"a,b\",a,b\nx,p|q,1,0\n");
  join_label_columns(whole, "a,b");  // the class has the name of a column
  CHECK(label_sets(whole, "a,b") == std::vector<Words>{{"p", "q"}});
  CHECK(joined_labels(whole, "a,b").empty());
  Table none = table_of(f, "text,label\nx,a|b\n");
  join_label_columns(none, "label");
  join_label_columns(none, "c,d");  // rows without labels, for predict
  CHECK(none.columns() == Words{"text", "label"});
  Table some = table_of(f, "text,toxic,insult\nx,1,0\n");
  expect_error("E_DATA_COLUMN", "no column 'insullt'", [&] { join_label_columns(some, "toxic,insullt"); });
  Table scores = table_of(f, "text,toxic,insult\nx,1,0\ny,0.5,0\n");
  expect_error("E_DATA_LABEL", "t.csv:3:3: '0.5' in column 'toxic'",
               [&] { join_label_columns(scores, "toxic,insult"); });
  Table missing = table_of(f, "text,toxic,insult\nx,1,\n");
  expect_error("E_DATA_LABEL", "'' in column 'insult'", [&] { join_label_columns(missing, "toxic,insult"); });
}
