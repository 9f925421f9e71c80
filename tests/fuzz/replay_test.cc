// Short fuzzing without libFuzzer: runs every file of the corpus, and random changes of it, through the same targets.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "tests/file/mutate.h"
#include "tests/fuzz/target.h"

namespace {

namespace fs = std::filesystem;
using pleiad::fuzz::Target;

std::vector<std::string> corpus_of(const Target& target) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(PLEIAD_CORPUS) / target.name)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<std::string> inputs;
  for (const fs::path& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

void run(const Target& target, const std::string& input) { target.run(std::as_bytes(std::span(input))); }

class Fuzz : public testing::TestWithParam<Target> {};

TEST_P(Fuzz, CorpusAndItsChangesKeepTheContract) {
#ifdef __SANITIZE_ADDRESS__
  constexpr int kChanges = 2000;
#else
  constexpr int kChanges = 10000;
#endif
  const Target& target = GetParam();
  const std::vector<std::string> inputs = corpus_of(target);
  ASSERT_FALSE(inputs.empty());
  for (const std::string& input : inputs) run(target, input);
  std::mt19937 random(1);
  for (int i = 0; i < kChanges; ++i) {
    std::string changed = pleiad::test::mutated(inputs[random() % inputs.size()], random);
    changed.resize(std::min(changed.size(), target.longest));
    run(target, changed);
  }
}

INSTANTIATE_TEST_SUITE_P(, Fuzz, testing::ValuesIn(pleiad::fuzz::targets().begin(), pleiad::fuzz::targets().end()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
