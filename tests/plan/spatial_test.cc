// Images split over a grid of ranks give the same values as whole images, for every layer, grid and batch.
#include <gtest/gtest.h>

#include <random>

#include "plan/layout.h"
#include "plan/tile_layer.h"
#include "pleiad/error.h"
#include "tests/file/folder.h"
#include "tests/plan/spatial_nets.h"
#include "tests/train/small_run.h"

namespace pleiad {
namespace {

using namespace pleiad::test;
using nn::Net;

std::int64_t pick(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

void randomise(const Tensor& tensor, const std::string& name) {
  const RandomStream stream(5, name);
  for (std::int64_t i = 0; i < tensor.count(); ++i) {
    tensor.values<double>()[static_cast<std::size_t>(i)] = stream.uniform(static_cast<std::uint64_t>(i)) * 2 - 1;
  }
}

/// x -> a 1x1 convolution, so that the tested layers need an input gradient -> the tested layers -> half the squared
/// distance to random targets.
struct Sandwich {
  std::int64_t h = 8, w = 8, c = 2, batch = 3;
  std::vector<std::pair<std::string, nn::LayerFields>> layers = {};

  [[nodiscard]] Net net() const {
    Net net({.dtype = DType::float64, .seed = 3});
    net.input("x", {h, w, c});
    const nn::Param wide{.init = {.type = "gaussian", .std = 0.5}};
    nn::ConvolutionOptions pre = nn::square(c + 1, 1);
    pre.weight_param = wide;
    net.add("pre", nn::convolution(pre));
    for (std::size_t i = 0; i < layers.size(); ++i) {
      net.add(name(i), nn::make_layer(layers[i].first, layers[i].second));
    }
    const Shape out = net.output(name(layers.size() - 1)).shape();
    net.input("t", out.sample());
    net.add("loss", nn::euclidean_loss(), {.inputs = {name(layers.size() - 1), "t"}});
    return net;
  }
  static std::string name(std::size_t i) { return "layer" + std::to_string(i); }
};

/// Returns the tile of these samples' images.
Tensor cut(const Tensor& whole, const Rect& tile, Interval samples) {
  const Shape& s = whole.shape();
  Tensor part(DType::float64, {samples.size(), tile.h.size(), tile.w.size(), s[3]});
  std::int64_t at = 0;
  for (std::int64_t n = samples.begin; n < samples.end; ++n) {
    for (std::int64_t h = tile.h.begin; h < tile.h.end; ++h) {
      for (std::int64_t w = tile.w.begin; w < tile.w.end; ++w) {
        for (std::int64_t k = 0; k < s[3]; ++k) {
          part.values<double>()[static_cast<std::size_t>(at++)] = whole.at(((n * s[1] + h) * s[2] + w) * s[3] + k);
        }
      }
    }
  }
  return part;
}

double distance(const Tensor& a, const Tensor& b, double factor = 1) {
  EXPECT_EQ(a.count(), b.count());
  double most = 0;
  for (std::int64_t i = 0; i < std::min(a.count(), b.count()); ++i) {
    most = std::max(most, std::abs(a.at(i) * factor - b.at(i)));
  }
  return most;
}

/// Compares the outputs, input gradients and weight gradients of a step on a grid with those of whole images on one
/// process.
void check_on(Session& session, const Sandwich& made, const std::string& grid, bool overlap = true) {
  const std::int64_t batch = made.batch;
  Net whole = made.net();
  whole.prepare(batch);
  randomise(whole.input_tensor("x"), "x");
  randomise(whole.input_tensor("t"), "t");
  whole.forward(nn::Phase::train);
  whole.backward();

  Net net = made.net();
  const auto comm = std::make_shared<Communicator>(&session);
  const PlanOptions options{.kind = "spatial", .grid = grid, .overlap = overlap ? "always" : "never"};
  const Plan plan = make_plan(net, options, session.size(), batch);
  Layout layout(net, plan, comm);
  net.control().set_gradient_scale(1.0 / session.size());
  net.control().set_parts(comm.get());
  const std::int64_t local = batch / plan.grid.groups;
  net.prepare(local);
  const Interval mine = part_of(batch, plan.grid.groups, plan.grid.group_of(session.rank()));
  const Rect tile = plan.grid.tile(made.h, made.w, plan.grid.tile_of(session.rank()));
  for (int again = 0; again < 2; ++again) {  // from the second step on, layers may start before all halos have arrived
    net.input_tensor("x").copy_from(plan.ranks == 1 ? whole.input_tensor("x")
                                                    : cut(whole.input_tensor("x"), tile, mine));
    const Tensor t = whole.input_tensor("t");
    const std::int64_t row = t.count() / batch;
    if (const std::optional<Rect> part = net.graph().input_tile("t"))
      net.input_tensor("t").copy_from(cut(t, *part, mine));
    if (!net.graph().input_tile("t"))
      Tensor(DType::float64, net.input_tensor("t").shape(), net.input_tensor("t").raw())
          .copy_from(Tensor(DType::float64, net.input_tensor("t").shape(),
                            t.values<double>().data() + static_cast<std::size_t>(mine.begin * row)));
    net.forward(nn::Phase::train, 0, mine.begin);
    double loss = net.loss() / session.size();
    comm->sum({&loss, 1});
    ASSERT_NEAR(loss, whole.loss(), 1e-10 * std::max(1.0, whole.loss()));
    net.backward();
  }
  for (const LayerPlan& layer : plan.layers) {
    const auto* const tile_work = layer.as<TileWork>();
    const auto* const spread_work = layer.as<SpreadWork>();
    if ((tile_work == nullptr && spread_work == nullptr) || layer.kind == "flatten" || plan.ranks == 1) continue;
    const TiledWork& work = spread_work != nullptr ? static_cast<const TiledWork&>(*spread_work) : *tile_work;
    const auto at = static_cast<std::size_t>(plan.grid.tile_of(session.rank()));
    ASSERT_LT(distance(net.output(layer.name), cut(whole.output(layer.name), work.out[at], mine)), 1e-10)
        << "output of " << layer.name;
  }
  if (plan.ranks > 1) {  // the group's gradient is `groups` times that of the batch, times 1 / groups
    ASSERT_LT(distance(net.graph().output_gradient("pre"), cut(whole.graph().output_gradient("pre"), tile, mine)),
              1e-10);
  }
  for (std::size_t i = 0; i < net.parameters().size(); ++i) {
    const nn::Parameter& p = net.parameters()[i];
    const Tensor& expected = whole.parameters()[i].gradient;
    if (const ParameterPart* held = layout.part_of(p.name)) {
      layout.sum_over_holders(p.name, p.gradient);
      Tensor part(DType::float64, held->shape());
      extract_part(*held, expected, part);
      ASSERT_LT(distance(p.gradient, part), 1e-10) << p.name;
      continue;
    }
    session.all_reduce(p.gradient.view());
    ASSERT_LT(distance(p.gradient, expected), 1e-10) << p.name;
  }
}

std::string text(std::int64_t number) { return std::to_string(number); }

std::string random_grid(std::mt19937& random, int ranks, std::int64_t batch) {
  std::vector<std::string> all;
  for (int groups = 1; groups <= ranks; ++groups) {
    for (int rows = 1; rows <= ranks / groups; ++rows) {
      if (ranks % (groups * rows) != 0 || batch % groups != 0) continue;
      all.push_back(text(rows) + "x" + text(ranks / groups / rows) + "x" + text(groups));
    }
  }
  return all[static_cast<std::size_t>(pick(random, 0, static_cast<std::int64_t>(all.size()) - 1))];
}

/// Returns a random convolution or pooling that fits an image of h x w.
std::pair<std::string, nn::LayerFields> random_layer(std::mt19937& random, std::int64_t h, std::int64_t w) {
  if (pick(random, 0, 2) > 0) {
    while (true) {
      const std::int64_t kh = pick(random, 1, 5);
      const std::int64_t kw = pick(random, 1, 5);
      const std::int64_t dilation = pick(random, 1, 2);
      const std::int64_t top = pick(random, 0, 3);
      const std::int64_t left = pick(random, 0, 3);
      if ((kh - 1) * dilation >= h + top || (kw - 1) * dilation >= w + left) continue;
      return {"convolution",
              {{"filters", "2"},
               {"kernel_h", text(kh)},
               {"kernel_w", text(kw)},
               {"stride_h", text(pick(random, 1, 3))},
               {"stride_w", text(pick(random, 1, 3))},
               {"pad_top", text(top)},
               {"pad_bottom", text(pick(random, 0, 2))},
               {"pad_left", text(left)},
               {"pad_right", text(pick(random, 0, 2))},
               {"dilation_h", text(dilation)},
               {"dilation_w", text(dilation)},
               {"activation", pick(random, 0, 1) == 0 ? "tanh" : "linear"},
               {"weight.init", "gaussian"},
               {"weight.std", "0.4"}}};
    }
  }
  const std::int64_t kernel = pick(random, 1, std::min<std::int64_t>(4, h));
  const std::int64_t kernel_w = pick(random, 1, std::min<std::int64_t>(4, w));
  return {"pooling",
          {{"type", pick(random, 0, 1) == 0 ? "max" : "average"},
           {"kernel", text(kernel)},
           {"stride", text(pick(random, 1, 3))},
           {"pad", text(pick(random, 0, kernel / 2))},
           {"kernel_w", text(kernel_w)},
           {"stride_w", text(pick(random, 1, 3))},
           {"pad_w", text(pick(random, 0, kernel_w / 2))},
           {"count_padding", pick(random, 0, 1) == 0 ? "true" : "false"}}};
}

class SpatialRanks : public testing::TestWithParam<int> {};

TEST_P(SpatialRanks, GiveTheValuesOfTheWholeImage) {
  const int ranks = GetParam();
  run_cluster(ranks, [&](Session& session) {
    std::mt19937 random(static_cast<unsigned>(100 + ranks));
    for (int round = 0; round < 8; ++round) {
      Sandwich made{.h = pick(random, 1, 12), .w = pick(random, 1, 12), .c = pick(random, 1, 3)};
      made.batch = ranks == 12 ? 4 : pick(random, 1, 4);
      made.layers = {random_layer(random, made.h, made.w)};
      {
        Net net({.dtype = DType::float64});
        net.input("x", {made.h, made.w, made.c});
        const auto layer = nn::make_layer(made.layers[0].first, made.layers[0].second);
        const Shape out = layer->outputs({{1, made.h, made.w, made.c + 1}})[0];
        if (pick(random, 0, 1) == 1) made.layers.push_back(random_layer(random, out[1], out[2]));
      }
      const std::string grid = random_grid(random, ranks, made.batch);
      std::string what;
      for (const auto& [kind, fields] : made.layers) {
        what += kind;
        for (const auto& [name, value] : fields) what += " " + name + "=" + value;
      }
      SCOPED_TRACE(testing::Message() << made.h << "x" << made.w << " batch " << made.batch << " grid " << grid << ": "
                                      << what);
      check_on(session, made, grid, round % 2 == 0);
      if (testing::Test::HasFatalFailure()) return;  // the failure ends the other ranks, too
    }
    session.shutdown();
  });
}
INSTANTIATE_TEST_SUITE_P(Counts, SpatialRanks, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 12));

/// Every kind of layer that works on tiles, and every kind that ends them.
TEST(Spatial, SupportsEveryKindOfLayer) {
  const nn::LayerFields conv = {{"filters", "3"},   {"kernel_h", "3"},      {"kernel_w", "3"},
                                {"pad_top", "1"},   {"pad_bottom", "1"},    {"pad_left", "1"},
                                {"pad_right", "1"}, {"activation", "tanh"}, {"weight.init", "he"}};
  const nn::LayerFields dense = {{"out", "5"}, {"activation", "sigmoid"}, {"weight.init", "he"}, {"bias.value", "0.3"}};
  nn::LayerFields turned = dense;
  turned.emplace_back("transposed", "true");
  nn::LayerFields bare = dense;
  bare.emplace_back("bias", "false");
  const std::vector<Sandwich> all = {
      {.layers = {{"lrn", {{"size", "3"}}}, {"convolution", conv}}},
      {.layers = {{"convolution", conv}, {"batch_norm", {}}, {"convolution", conv}, {"activation", {}}}},
      {.layers = {{"dropout", {{"ratio", "0.4"}}}, {"convolution", conv}, {"dropout", {{"ratio", "0.2"}}}}},
      {.layers = {{"convolution", conv}, {"dense", dense}}},
      {.layers = {{"convolution", conv}, {"flatten", {}}, {"dense", turned}, {"batch_norm", {}}, {"dense", dense}}},
      {.layers = {{"convolution", conv}, {"dense", bare}, {"dropout", {{"ratio", "0.5"}}}, {"dense", dense}}},
      {.layers = {{"convolution", conv}, {"slice", {{"axis", "3"}, {"sizes", "2,1"}}}}},
      {.layers = {{"convolution", conv}, {"flatten", {}}, {"activation", {{"function", "softmax"}}}}},
      {.layers = {{"convolution", conv}, {"local_contrast", {{"size", "3"}}}, {"convolution", conv}}},
      {.h = 11, .w = 9, .layers = {{"local_contrast", {{"size", "5"}, {"type", "box"}}}, {"dense", dense}}},
      {.h = 9,
       .layers = {{"local_convolution", {{"filters", "2"}, {"kernel", "3"}, {"weight.init", "he"}}},
                  {"pooling", {{"type", "l2"}, {"kernel", "3"}, {"stride", "1"}}},
                  {"local_contrast", {{"size", "3"}}}}},
      {.layers = {{"local_convolution",
                   {{"filters", "2"},
                    {"kernel", "4"},
                    {"stride", "2"},
                    {"pad", "1"},
                    {"weight.init", "he"},
                    {"weight.norm", "1"},
                    {"activation", "tanh"}}},
                  {"dense", dense}}},
      {.h = 3, .w = 2, .layers = {{"convolution", conv}, {"batch_norm", {}}, {"dense", dense}}},
      // One image, split into bands: the part that needs no halo is computed first.
      {.h = 13,
       .w = 12,
       .batch = 1,
       .layers = {{"convolution", conv},
                  {"pooling", {{"type", "average"}, {"kernel", "3"}, {"stride", "2"}, {"pad", "1"}}},
                  {"convolution", conv},
                  {"local_contrast", {{"size", "3"}}},
                  {"dense", dense}}},
      // Dense layers that are worth splitting, of widths that the ranks do not divide.
      {.layers = {{"convolution", conv},
                  {"dense", {{"out", "257"}, {"activation", "tanh"}, {"weight.init", "he"}}},
                  {"dense", {{"out", "251"}, {"activation", "sigmoid"}, {"weight.init", "he"}, {"transposed", "true"}}},
                  {"dense", dense}}},
      // A transposed convolution writes to the positions around each input position, also in other tiles.
      {.h = 9,
       .layers = {{"local_convolution", {{"filters", "2"}, {"kernel", "3"}, {"weight.init", "he"}}},
                  {"local_convolution",
                   {{"filters", "3"}, {"kernel", "3"}, {"transposed", "true"}, {"weight.init", "he"}}},
                  {"convolution", conv}}},
      {.h = 9,
       .layers = {{"local_convolution", {{"filters", "2"}, {"kernel", "4"}, {"pad", "2"}, {"stride", "3"}}},
                  {"local_convolution",
                   {{"filters", "2"}, {"kernel", "4"}, {"pad", "2"}, {"stride", "3"}, {"transposed", "true"}}}}},
      {.h = 5, .w = 1, .batch = 1, .layers = {{"pooling", {{"kernel", "1"}, {"stride", "2"}}}, {"dense", dense}}},
  };
  for (const auto& [ranks, grids] : std::vector<std::pair<int, std::vector<std::string>>>{
           {2, {"2x1", "1x2", "1x1x2"}}, {3, {"3x1"}}, {4, {"2x2", "4x1", "2x1x2"}}, {6, {"2x3", "1x3x2"}}}) {
    run_cluster(ranks, [&, g = grids](Session& session) {
      for (const std::string& grid : g) {
        for (std::size_t i = 0; i < all.size(); ++i) {
          Sandwich made = all[i];
          if (grid.ends_with("x2") && grid.size() == 5) made.batch = made.batch == 1 ? 2 : 4;
          SCOPED_TRACE(testing::Message() << "case " << i << " grid " << grid);
          check_on(session, made, grid);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
      session.shutdown();
    });
  }
}

/// Branches: values with several consumers, sums of tiles, layers of one phase only.
TEST(Spatial, TakesBranches) {
  const auto made = [] {
    Net net({.dtype = DType::float64, .seed = 9});
    net.input("x", {7, 6, 2}).input("t", {3});
    const nn::Param wide{.init = {.type = "he"}};
    nn::ConvolutionOptions conv = nn::square(2, 3, 1, 1);
    conv.weight_param = wide;
    net.add("a", nn::convolution(conv), {.inputs = {"x"}});
    net.add("b", nn::convolution(conv));
    net.add("c", nn::convolution(conv), {.inputs = {"a"}});
    net.add("sum", nn::sum(), {.inputs = {"b", "c"}});
    net.add("pool", nn::pooling({.type = "average", .kernel = 3, .stride = 2}));
    net.add("only", nn::convolution(conv), {.inputs = {"pool"}, .phases = {nn::Phase::test}});
    net.add("out", nn::dense({.out = 3, .weight_param = wide}), {.inputs = {"pool"}});
    net.add("loss", nn::euclidean_loss(), {.inputs = {"out", "t"}});
    return net;
  };
  const Tensor x(DType::float64, {8, 7, 6, 2});
  const Tensor t(DType::float64, {8, 3});
  randomise(x, "x");
  randomise(t, "t");
  const auto run = [&](Session* session, const std::string& grid) {
    Net net = made();
    TrainOptions o{.batch = 4, .updater = {.rule = "momentum", .learning_rate = 0.05, .momentum = 0.9}};
    o.plan = {.kind = "spatial", .grid = grid};
    o.steps = 6;
    o.display = 1;
    o.test = 2;
    const auto from = array_samples({{"x", x}, {"t", t}});
    std::vector<double> losses;
    TrainCalls calls;
    calls.report = [&](const Report& r) { return losses.push_back(r.metrics[0].second), true; };
    const auto train = [&](Trainer& trainer) { trainer.run(*from, nullptr, from.get(), calls); };
    if (session == nullptr) {
      Trainer trainer(net, o);
      train(trainer);
    } else {
      Trainer trainer(net, o, *session);
      train(trainer);
    }
    return losses;
  };
  const std::vector<double> expected = run(nullptr, "1x1");
  run_cluster(4, [&](Session& session) {
    for (const std::string grid : {"2x2", "4x1", "1x2x2"}) {
      const std::vector<double> got = run(&session, grid);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], expected[i], 1e-10 * expected[i]) << grid << " " << i;
    }
    session.shutdown();
  });
}

class SpatialTraces : public testing::TestWithParam<DType> {};

TEST_P(SpatialTraces, AreThoseOfOneRank) {
  const bool exact = GetParam() == DType::float64;
  const std::int64_t batch = exact ? 2 : 8;
  const std::int64_t steps = exact ? 4 : 10;
  Net alone_net = mnist(GetParam());
  Trainer alone(alone_net, mnist_options("1x1", batch, steps));
  const std::vector<double> expected = trace(alone, *digits(GetParam(), 40));
  EXPECT_LT(expected.back(), expected.front());
  const double tolerance = exact ? 1e-10 : 1e-5;
  struct Case {
    int ranks;
    std::string grid;
    std::string overlap = "always";
  };
  for (const Case& one : {Case{2, "1x2"}, Case{3, "3x1", "never"}, Case{3, "3x1"}, Case{4, "2x2"}, Case{4, "2x1x2"},
                          Case{6, "2x3", "never"}, Case{9, "3x3"}, Case{16, "4x4", "never"}}) {
    run_cluster(one.ranks, [&](Session& session) {
      Net net = mnist(GetParam());
      {
        TrainOptions o = mnist_options(one.grid, batch, steps);
        o.plan.overlap = one.overlap;
        Trainer trainer(net, o, session);
        const std::vector<double> got = trace(trainer, *digits(GetParam(), 40));
        ASSERT_EQ(got.size(), expected.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], expected[i], tolerance * std::max(1.0, expected[i])) << one.grid << ", step " << i;
        }
      }
      session.shutdown();
    });
  }
}
INSTANTIATE_TEST_SUITE_P(Types, SpatialTraces, testing::Values(DType::float32, DType::float64),
                         [](const auto& tested) { return std::string(name_of(tested.param)); });

/// A checkpoint saved by four ranks is resumed by three ranks, by two with another plan, and by one: the trace and the
/// net are the same.
TEST(Spatial, CheckpointsHoldTheWholeModel) {
  const Folder folder;
  const DType dtype = DType::float32;
  Net alone_net = mnist(dtype);
  Trainer alone(alone_net, mnist_options("1x1", 8, 6));
  const std::vector<double> expected = trace(alone, *digits(dtype, 40));
  const std::string saved = (folder / "saved").string();
  run_cluster(4, [&](Session& session) {
    Net net = mnist(dtype);
    {
      Trainer trainer(net, mnist_options("2x1x2", 8, 3), session);
      (void)trace(trainer, *digits(dtype, 40));
      EXPECT_EQ(net.parameter("hidden/weight").value.shape(), Shape({500, 2 * 4 * 50}));
      trainer.save(saved);
    }
    session.shutdown();
  });
  const auto rest = [&](Session* session, const PlanOptions& plan) {
    Net net = mnist(dtype);
    TrainOptions o = mnist_options("auto", 8, 6);
    o.plan = plan;
    const auto go_on = [&](Trainer& trainer) {
      trainer.load(saved);
      const std::vector<double> got = trace(trainer, *digits(dtype, 40));
      ASSERT_EQ(got.size(), 3U);
      for (std::size_t i = 0; i < 3; ++i) ASSERT_NEAR(got[i], expected[i + 3], 1e-5 * std::max(1.0, expected[i + 3]));
    };
    if (session == nullptr) {
      Trainer trainer(net, o);
      go_on(trainer);
    } else {
      Trainer trainer(net, o, *session);
      go_on(trainer);
    }
  };
  rest(nullptr, {});
  run_cluster(3, [&](Session& session) { rest(&session, {.kind = "spatial", .grid = "3x1"}), session.shutdown(); });
  run_cluster(2, [&](Session& session) { rest(&session, {.kind = "feature"}), session.shutdown(); });
  Net again = load_net(saved);
  EXPECT_EQ(again.text(), mnist(dtype).text());
  EXPECT_EQ(again.parameter("hidden/weight").value.shape(), Shape({500, 800}));
}

TEST(Spatial, PlanExplainsTilesHalosAndBytes) {
  const Net net = mnist(DType::float32);
  const Plan plan = make_plan(net, {.kind = "spatial", .grid = "2x2"}, 4, 16);
  const auto layer = [&](const std::string& name) { return *std::ranges::find(plan.layers, name, &LayerPlan::name); };
  EXPECT_EQ(layer("conv1").mode(), "tile");
  const auto conv1 = std::get<TileWork>(layer("conv1").work);
  EXPECT_EQ(conv1.own[3], (Rect{{14, 28}, {14, 28}}));
  EXPECT_EQ(conv1.need[0], (Rect{{0, 16}, {0, 16}}));
  EXPECT_EQ(conv1.out[3], (Rect{{12, 24}, {12, 24}}));
  // Two rows of 14, two columns of 14, and a corner of 2x2.
  EXPECT_EQ(layer("conv1").forward_bytes, (2 * 14 + 14 * 2 + 4) * 16 * 4);
  EXPECT_EQ(layer("conv1").backward_bytes, 0);  // no earlier layer has parameters
  EXPECT_EQ(layer("pool1").forward_bytes, 0);
  EXPECT_EQ(layer("conv2").backward_bytes, layer("conv2").forward_bytes);
  EXPECT_EQ(layer("hidden").mode(), "tower");
  EXPECT_EQ(layer("hidden").parameter_bytes, (500 * 200 + 500) * 4);
  EXPECT_EQ(layer("hidden").gradient_bytes, 500 * 4);
  EXPECT_EQ(layer("hidden").forward_bytes, 2 * 16 * 500 * 4);
  EXPECT_EQ(layer("out").mode(), "whole");
  const std::string words = explain(plan);
  for (const char* part : {"grid 2x2", "rank 3", "14x14", "12 x 12 of 24 x 24", "2,2,2,2", "tower", "cost model"}) {
    EXPECT_NE(words.find(part), std::string::npos) << part << " in\n" << words;
  }
  // A dense layer whose inputs all ranks hold is split if its ranks are the tiles of one image.
  Net deep;
  deep.input("x", {4, 4, 1}).input("t", {3000});
  deep.add("a", nn::dense({.out = 3000}), {.inputs = {"x"}}).add("b", nn::dense({.out = 3000}));
  deep.add("loss", nn::euclidean_loss(), {.inputs = {"b", "t"}});
  const auto mode = [&](const std::string& grid, int ranks) {
    return make_plan(deep, {.kind = "spatial", .grid = grid}, ranks, 4).layers[1].mode();
  };
  EXPECT_EQ(mode("2x2", 4), "tower");
  EXPECT_EQ(mode("1x1x4", 4), "whole");
  EXPECT_EQ(mode("1x1", 1), "whole");
  // The cost model chooses the grid: a wide image is split into columns, not rows.
  Net wide;
  wide.input("x", {8, 256, 4}).input("t", {8, 256, 4});
  nn::ConvolutionOptions conv = nn::square(4, 5, 1, 2);
  wide.add("a", nn::convolution(conv), {.inputs = {"x"}});
  wide.add("b", nn::convolution(conv));
  wide.add("loss", nn::euclidean_loss(), {.inputs = {"b", "t"}});
  EXPECT_EQ(make_plan(wide, {.kind = "spatial"}, 4, 1).grid, (Grid{1, 4, 1}));
  EXPECT_EQ(make_plan(wide, {.kind = "spatial"}, 1, 1).grid, (Grid{1, 1, 1}));
}

TEST(Spatial, RefusesWhatItCannotDo) {
  const Net net = mnist(DType::float32);
  expect_error<InvalidArgument>([&] { (void)make_plan(net, {.kind = "spatial", .grid = "2x3"}, 4, 8); },
                                {"2x3", "6 ranks", "the world has 4"});
  expect_error<InvalidArgument>([&] { (void)make_plan(net, {.kind = "spatial", .grid = "2x1x2"}, 4, 9); },
                                {"2 groups", "9"});
  expect_error<InvalidArgument>([&] { (void)make_plan(net, {.kind = "data", .grid = "2x1"}, 2, 8); }, {"spatial"});
  Net flat;
  flat.input("x", {6}).input("t", {6});
  flat.add("a", nn::dense({.out = 6}), {.inputs = {"x"}});
  flat.add("loss", nn::euclidean_loss(), {.inputs = {"a", "t"}});
  expect_error<InvalidArgument>([&] { (void)make_plan(flat, {.kind = "spatial"}, 2, 8); }, {"no image inputs"});
  run_cluster(2, [&](Session& session) {
    Net wrong = mnist(DType::float32);
    TrainOptions o = mnist_options("2x2", 8, 1);
    expect_error<InvalidArgument>([&] { const Trainer trainer(wrong, o, session); }, {"2x2", "4 ranks"});
    o = mnist_options("2x1", 8, 1);
    o.exchange = "tables";
    expect_error<InvalidArgument>([&] { const Trainer trainer(wrong, o, session); }, {"tables", "spatial"});
    session.shutdown();
  });
}

}  // namespace
}  // namespace pleiad
