// Workers under one clock, one of which is slowed down by a factor of three: bench_ssp CLOCK STRAGGLER SECONDS. They
// train softmax regression on generated clusters through one array. CLOCK: sync, ssp or async. STRAGGLER: moving (the
// slow rank changes every 40 ms, as on machines that others use too) or fixed (always the last rank). Every rank prints
// its waiting time, and rank 0 the accuracy over time. bench/ssp.py starts it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "core/process.h"
#include "pleiad/pleiad.hpp"

namespace {

using namespace pleiad;

constexpr int kInputs = 128;
constexpr int kClasses = 10;
constexpr int kBatch = 1;
constexpr int kTests = 4000;
constexpr int kStaleness = 8;
constexpr double kRate = 0.002;
constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kStep = 4 * kMs;  // mostly asleep, so that four ranks fit on two cores
constexpr std::int64_t kTurn = 40 * kMs;
constexpr std::size_t kWeights = (kInputs + 1) * kClasses;

using Weights = std::vector<float>;

struct Sample {
  float x[kInputs];
  int label;
};

class Clusters {
 public:
  explicit Clusters(unsigned seed) : random_(seed) {
    std::mt19937 fixed(7);
    std::normal_distribution<float> normal;
    for (auto& centre : centres_) {
      for (float& x : centre) x = 0.22F * normal(fixed);
    }
  }
  Sample draw() {
    Sample sample{};
    sample.label = static_cast<int>(random_() % kClasses);
    for (int i = 0; i < kInputs; ++i) sample.x[i] = centres_[sample.label][i] + normal_(random_);
    return sample;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<float> normal_;
  float centres_[kClasses][kInputs];
};

void scores(const Weights& weights, const Sample& sample, float* out) {
  for (int c = 0; c < kClasses; ++c) {
    const float* row = weights.data() + static_cast<std::ptrdiff_t>(c) * (kInputs + 1);
    out[c] = row[kInputs];
    for (int i = 0; i < kInputs; ++i) out[c] += row[i] * sample.x[i];
  }
}

void add_gradient(const Weights& weights, const Sample& sample, Weights& gradient) {
  float p[kClasses];
  scores(weights, sample, p);
  const float top = *std::max_element(p, p + kClasses);
  float sum = 0;
  for (float& v : p) sum += v = std::exp(v - top);
  for (int c = 0; c < kClasses; ++c) {
    const float g = p[c] / sum - (c == sample.label ? 1.0F : 0.0F);
    float* row = gradient.data() + static_cast<std::ptrdiff_t>(c) * (kInputs + 1);
    for (int i = 0; i < kInputs; ++i) row[i] += g * sample.x[i];
    row[kInputs] += g;
  }
}

double accuracy(const Weights& weights, const std::vector<Sample>& tests) {
  int right = 0;
  for (const Sample& sample : tests) {
    float s[kClasses];
    scores(weights, sample, s);
    right += std::max_element(s, s + kClasses) - s == sample.label ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(tests.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "bench_ssp CLOCK moving|fixed SECONDS\n");
    return 2;
  }
  const std::string clock = argv[1];
  const bool moving = std::strcmp(argv[2], "moving") == 0;
  const auto length = static_cast<std::int64_t>(std::atof(argv[3]) * 1e9);
  Session session = Session::start();
  const int rank = session.rank();
  const int ranks = session.size();
  const ArrayTable table = session.create_array(kWeights, {.name = "weights",
                                                           .clock = clock,
                                                           .staleness = clock == "ssp" ? kStaleness : 0,
                                                           .updater = {.rule = "sgd", .learning_rate = kRate}});
  Clusters mine(100 + static_cast<unsigned>(rank));
  Weights weights(kWeights);
  Weights gradient(kWeights);
  std::vector<std::pair<double, Weights>> seen;
  int steps = 0;
  session.barrier();
  const std::int64_t start = now_ns();
  for (std::int64_t now = start; now - start < length; now = now_ns()) {
    const std::int64_t slowed = moving ? (now - start) / kTurn % ranks : ranks - 1;
    table.get(weights);
    if (rank == 0 && (seen.empty() || static_cast<double>(now - start) * 1e-9 - seen.back().first > 0.05)) {
      seen.emplace_back(static_cast<double>(now_ns() - start) * 1e-9, weights);
    }
    std::ranges::fill(gradient, 0.0F);
    for (int i = 0; i < kBatch; ++i) add_gradient(weights, mine.draw(), gradient);
    std::this_thread::sleep_for(std::chrono::nanoseconds(kStep * (slowed == rank ? 3 : 1)));
    table.add(gradient);
    if (clock == "ssp") table.tick();
    ++steps;
  }
  const double waited = table.stats().wait_seconds;
  session.shutdown();  // from now on no worker waits for this one
  std::string line = "{\"rank\":" + std::to_string(rank) + ",\"steps\":" + std::to_string(steps) +
                     ",\"waited\":" + std::to_string(waited);
  if (rank == 0) {
    Clusters drawn(5);
    std::vector<Sample> tests;
    for (int i = 0; i < kTests; ++i) tests.push_back(drawn.draw());
    line += ",\"curve\":[";
    for (const auto& [at, then] : seen) {
      line +=
          (line.back() == '[' ? "[" : ",[") + std::to_string(at) + "," + std::to_string(accuracy(then, tests)) + "]";
    }
    line += "]";
  }
  std::printf("%s}\n", line.c_str());
}
