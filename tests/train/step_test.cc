// A step does not allocate memory, compute gradients that are not needed, or write a fused gradient to memory.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <map>
#include <new>

#include "core/threads.h"
#include "pleiad/nn/layers.h"
#include "pleiad/train.h"

namespace {

// The callers that allocated while counting was on, in fixed memory: the counter must not allocate.
std::atomic<bool> g_counting = false;
std::atomic<std::size_t> g_count = 0;
std::array<void*, 4096> g_callers{};

void note(void* caller) {
  if (!g_counting.load(std::memory_order_relaxed)) return;
  const std::size_t at = g_count++;
  if (at < g_callers.size()) g_callers[at] = caller;
}

}  // namespace

// Sanitizers replace the allocator themselves.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"  // the compiler sees only half of the replaced functions
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* __libc_malloc(std::size_t);                 // NOLINT
void* __libc_calloc(std::size_t, std::size_t);    // NOLINT
void* __libc_realloc(void*, std::size_t);         // NOLINT
void* __libc_memalign(std::size_t, std::size_t);  // NOLINT

void* malloc(std::size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_calloc(count, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** to, std::size_t alignment, std::size_t bytes) {
  note(__builtin_return_address(0));
  *to = __libc_memalign(alignment, bytes);
  return *to == nullptr ? 12 : 0;
}
}

void* operator new(std::size_t bytes) {
  note(__builtin_return_address(0));
  void* const memory = __libc_malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  note(__builtin_return_address(0));
  void* const memory = __libc_memalign(static_cast<std::size_t>(alignment), bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
constexpr bool kCounts = true;
#else
constexpr bool kCounts = false;
#endif

namespace pleiad {
namespace {

/// Counts the allocations of body() for each library or program that made them.
template <class Body>
std::map<std::string, int> allocations(Body&& body) {
  g_count = 0;
  g_counting = true;
  body();
  g_counting = false;
  std::map<std::string, int> by_object;
  for (std::size_t i = 0; i < std::min(g_count.load(), g_callers.size()); ++i) {
    Dl_info info{};
    const bool known = dladdr(g_callers[i], &info) != 0 && info.dli_fname != nullptr;
    ++by_object[known ? info.dli_fname : "unknown"];
  }
  return by_object;
}

std::string this_program() {
  Dl_info info{};
  dladdr(reinterpret_cast<void*>(&note), &info);
  return info.dli_fname;
}

struct Kind {
  const char* name;
  const char* rule;
  bool images;
};

class Step : public testing::TestWithParam<Kind> {};

nn::Net net_of(bool images) {
  nn::Net net;
  net.input("label", {}, DType::int32);
  if (images) {
    net.input("x", {12, 12, 3});
    nn::ConvolutionOptions conv = nn::square(8, 3, 1, 1);
    conv.activation = "relu";
    net.add("conv1", nn::convolution(conv)).add("pool1", nn::pooling({.kernel = 3, .stride = 2}));
    net.add("lrn", nn::lrn({.size = 3}));
    conv.activation = "tanh";
    net.add("conv2", nn::convolution(conv)).add("norm", nn::batch_norm());
    net.add("pool2", nn::pooling({.type = "average", .kernel = 2, .stride = 2}));
  } else {
    net.input("x", {300});
    net.add("fc1", nn::dense({.out = 200, .activation = "stanh"}));
  }
  net.add("hidden", nn::dense({.out = 100, .activation = "sigmoid"}));
  net.add("slice", nn::slice({.axis = 1, .parts = 2}));
  net.add("relu", nn::activation({.function = "relu"}), {.inputs = {"slice:0"}});
  net.add("drop", nn::dropout(), {.inputs = {"slice:1"}});
  net.add("join", nn::concat(), {.inputs = {"relu", "drop"}});
  net.add("scores", nn::dense({.out = 10}));
  net.add("loss", nn::softmax_loss(), {.inputs = {"scores", "label"}});
  return net;
}

TEST_P(Step, AllocatesNothing) {
  if (!kCounts) GTEST_SKIP() << "the sanitizers' allocator cannot be counted";
  set_compute_threads(2);
  nn::Net net = net_of(GetParam().images);
  Trainer trainer(net, {.batch = 32, .updater = {.rule = GetParam().rule, .momentum = 0.5}});
  net.input_tensor("x").fill(0.1);
  for (int i = 0; i < 3; ++i) (void)trainer.step();
  ASSERT_FALSE(allocations([] { delete new int(3); }).empty()) << "the counter does not count";
  auto by_object = allocations([&] {
    for (int i = 0; i < 5; ++i) (void)trainer.step();
  });
  EXPECT_EQ(by_object[this_program()], 0);
  by_object.erase(this_program());
  for (const auto& [object, count] : by_object) {
    // OpenBLAS's kernels for Intel's 512-bit vectors allocate a buffer in some products; its kernels for other
    // processors do not.
    if (object.find("libopenblas") != std::string::npos) continue;
    // oneDNN allocates a small list of arguments for each call of a primitive. No other library may allocate.
    EXPECT_NE(object.find("libdnnl"), std::string::npos) << object << " allocated " << count << " times";
    EXPECT_TRUE(GetParam().images) << object;
  }
}

INSTANTIATE_TEST_SUITE_P(Nets, Step,
                         testing::Values(Kind{"MlpSgd", "sgd", false}, Kind{"MlpMomentum", "momentum", false},
                                         Kind{"MlpAdam", "adam", false}, Kind{"CnnSgd", "sgd", true},
                                         Kind{"CnnAdagrad", "adagrad", true}),
                         [](const auto& tested) { return std::string(tested.param.name); });

/// y = weight * x. Counts the backward passes that request dx.
class Probe final : public nn::Layer {
 public:
  explicit Probe(int& asked) : asked_(asked) {}
  [[nodiscard]] std::string kind() const override { return "probe"; }
  [[nodiscard]] nn::Shapes outputs(const nn::Shapes& in) const override { return in; }
  [[nodiscard]] std::vector<nn::ParamSpec> parameters(const nn::Shapes&) const override {
    return {{.name = "weight", .shape = {1}, .wanted = {}}};
  }
  void forward(nn::Pass& pass) override { pass.y[0].copy_from(pass.x[0]); }
  void backward(nn::Pass& pass) override {
    asked_ = pass.dx[0].empty() ? 0 : 1;
    pass.gradient[0].fill(1);
    if (asked_ == 1) pass.dx[0].copy_from(pass.dy[0]);
  }

 private:
  int& asked_;
};

TEST(Step, ComputesNoGradientByTheNetsInputs) {
  int first = -1, second = -1;
  nn::Net net;
  net.input("t", {4}).input("x", {4});
  net.add("relu", nn::activation({}), {.inputs = {"x"}});  // no earlier layer has parameters
  net.add("first", std::make_unique<Probe>(first)).add("second", std::make_unique<Probe>(second));
  net.add("loss", nn::euclidean_loss(), {.inputs = {"second", "t"}});
  net.prepare(3);
  net.forward(nn::Phase::train);
  net.backward();
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  EXPECT_TRUE(net.graph().output_gradient("x").empty());
  EXPECT_TRUE(net.graph().output_gradient("relu").empty());
  EXPECT_TRUE(net.graph().output_gradient("t").empty());
  EXPECT_FALSE(net.graph().output_gradient("first").empty());
}

TEST(Step, AFusedGradientIsNowhereInMemory) {
  nn::Net fused = net_of(false), kept = net_of(false);
  const Trainer one(fused, {.batch = 8}), other(kept, {.batch = 8, .fuse = false});
  for (const nn::Parameter& p : fused.parameters()) {
    EXPECT_EQ(p.gradient.empty(), p.name.ends_with("/weight")) << p.name;
    EXPECT_FALSE(kept.parameter(p.name).gradient.empty()) << p.name;
  }
}

}  // namespace
}  // namespace pleiad
