// The trace of a run, read as a viewer reads it.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include <nlohmann/json.hpp>

#include "tests/file/folder.h"
#include "tests/train/small_run.h"

namespace pleiad {
namespace {

using namespace pleiad::test;
using nlohmann::json;

/// The identity, with a slow backward pass.
class Slow final : public nn::Layer {
 public:
  explicit Slow(std::chrono::milliseconds time) : time_(time) {}
  [[nodiscard]] std::string kind() const override { return "slow"; }
  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override { return in; }
  void forward(nn::Pass& pass) override { pass.y[0].copy_from(pass.x[0]); }
  void backward(nn::Pass& pass) override {
    std::this_thread::sleep_for(time_);
    pass.dx[0].copy_from(pass.dy[0]);
  }

 private:
  std::chrono::milliseconds time_;
};

/// A net with large parameters after a layer whose backward pass takes `time`.
nn::Net wide(std::chrono::milliseconds time = {}) {
  nn::Net net({.name = "wide"});
  net.input("label", {}, DType::int32).input("x", {8, 8, 2});
  net.add("first", nn::dense({.out = 600, .activation = "tanh"}));
  net.add("slow", std::make_unique<Slow>(time));
  net.add("second", nn::dense({.out = 600, .activation = "tanh"}));
  net.add("third", nn::dense({.out = 600, .activation = "tanh"}));
  net.add("out", nn::dense({.out = 4}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"out", "label"}});
  return net;
}

json traced(int ranks, const std::string& exchange, const std::string& file, std::chrono::milliseconds time = {}) {
  run_cluster(ranks, [&](Session& session) {
    nn::Net net = wide(time);
    {
      TrainOptions o = options("momentum", exchange);
      o.trace = file;
      o.trace_from = 3;
      o.trace_steps = 5;
      Trainer trainer(net, o, session);
      const auto from = samples();
      trainer.run(*from);
    }
    session.shutdown();
  });
  return json::parse(slurp(file));
}

// Counts the exchanges of both ranks that run during one of the backward passes.
int overlaps_of(const json& document, const std::string& what) {
  int overlaps = 0;
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<std::pair<double, double>> backward;
    std::map<std::string, int> count;
    for (const json& event : document["traceEvents"]) {
      if (event["pid"] != rank || event["ph"] != "X") continue;
      ++count[event["name"]];
      if (event["cat"] != "backward") continue;
      EXPECT_EQ(event["tid"], 0);
      backward.emplace_back(event["ts"], event["ts"].get<double>() + event["dur"].get<double>());
    }
    EXPECT_EQ(count["forward first"], 5);
    EXPECT_EQ(count["backward out"], 5);
    EXPECT_EQ(count["fill"], 5);
    EXPECT_EQ(count[what + " second/weight"], 5);
    for (const json& event : document["traceEvents"]) {
      if (event["pid"] != rank || event["ph"] != "X" || event["cat"] != what) continue;
      EXPECT_EQ(event["tid"], 1);
      const double begin = event["ts"];
      const double end = begin + event["dur"].get<double>();
      for (const auto& [from, to] : backward) overlaps += begin < to && from < end ? 1 : 0;
    }
  }
  return overlaps;
}

// On a busy machine the exchange thread may not run before the pass is over. If so, the test runs again with a longer
// pass.
TEST(Trace, ShowsTheExchangeUnderTheBackwardPass) {
  const Folder folder;
  for (const std::string exchange : {"all_reduce", "tables"}) {
    int overlaps = 0;
    for (int time = 1; time <= 8192 && overlaps == 0; time *= 2) {
      const json document = traced(2, exchange, folder / "trace.json", std::chrono::milliseconds(time));
      overlaps = overlaps_of(document, exchange == "tables" ? "table" : exchange);
    }
    EXPECT_GT(overlaps, 0) << exchange;
  }
}

TEST(Trace, IsAlsoWrittenByOneProcessAndOnlyIfEnabled) {
  const Folder folder;
  const json document = traced(1, "none", folder / "one.json");
  const auto& events = document["traceEvents"];
  EXPECT_EQ(std::ranges::count_if(events, [](const json& e) { return e["ph"] == "X" && e["cat"] == "forward"; }), 30);
  nn::Net net = wide();
  Trainer trainer(net, options("sgd", "none"));
  const auto from = samples();
  (void)trainer.run(*from);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"one.json"});
}

}  // namespace
}  // namespace pleiad
