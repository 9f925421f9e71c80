// Tiles, halos and their exchange on random shapes, compared with their definition.
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "pleiad/error.h"
#include "pleiad/spatial.h"
#include "tests/file/folder.h"

namespace pleiad {
namespace {

using test::expect_error;

std::int64_t pick(std::mt19937& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

std::vector<Grid> grids(int ranks) {
  std::vector<Grid> all;
  for (int groups = 1; groups <= ranks; ++groups) {
    for (int rows = 1; rows <= ranks / groups; ++rows) {
      if (ranks % (groups * rows) == 0) all.push_back({rows, ranks / groups / rows, groups});
    }
  }
  return all;
}

SlidingWindow random_window(std::mt19937& random, std::int64_t length) {
  SlidingWindow window;
  do {
    window = {.size = pick(random, 1, 6),
              .stride = pick(random, 1, 4),
              .pad_begin = pick(random, 0, 4),
              .pad_end = pick(random, 0, 4),
              .dilation = pick(random, 1, 3)};
  } while (window.output(length) < 1);
  return window;
}

GlobalArrayOptions random_array(std::mt19937& random, const Grid& grid) {
  GlobalArrayOptions o{.batch = pick(random, 1, 3),
                       .height = pick(random, 1, 13),
                       .width = pick(random, 1, 13),
                       .channels = pick(random, 1, 3),
                       .dtype = DType::float64,
                       .grid = grid};
  o.window_h = random_window(random, o.height);
  o.window_w = random_window(random, o.width);
  o.pad = pick(random, 0, 1) == 1;
  return o;
}

double value_at(std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c, int group = 0) {
  return static_cast<double>((((group * 10 + n) * 100 + h) * 100 + w) * 10 + c + 1);
}

/// Returns the values of a rectangle of the whole array, with zeros outside of the array.
std::vector<double> values_of(const GlobalArrayOptions& o, const Rect& rect, int group) {
  std::vector<double> all;
  for (std::int64_t n = 0; n < o.batch; ++n) {
    for (std::int64_t h = rect.h.begin; h < rect.h.end; ++h) {
      for (std::int64_t w = rect.w.begin; w < rect.w.end; ++w) {
        const bool in = h >= 0 && h < o.height && w >= 0 && w < o.width;
        for (std::int64_t c = 0; c < o.channels; ++c) all.push_back(in ? value_at(n, h, w, c, group) : 0);
      }
    }
  }
  return all;
}

std::vector<double> vector_of(const View& view) {
  const auto* first = static_cast<const double*>(view.data);
  return {first, first + view.count};
}

std::vector<double> noise(std::int64_t count, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<double> all(static_cast<std::size_t>(count));
  for (double& value : all) value = std::uniform_real_distribution<>(-1, 1)(random);
  return all;
}

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

double sum_over_ranks(Session& session, double mine) {
  std::vector<double> all = {mine};
  session.all_reduce(all);
  return all[0];
}

/// Checks that views agree with the definition, that the byte count agrees with the formula, and that <Hx, y> = <x, H^T
/// y>.
void check_array(Session& session, const GlobalArrayOptions& o) {
  GlobalArray array(session, o);
  const int group = o.grid.group_of(session.rank());
  const std::vector<double> x = values_of(o, array.tile(), group);
  ASSERT_EQ(array.tile().places() * o.batch * o.channels, static_cast<std::int64_t>(x.size()));
  ASSERT_EQ(vector_of(array.get_fprop_view(x)), values_of(o, array.view(), group));

  // The formula counts the positions of this tile that other ranks need.
  std::int64_t places = 0;
  for (int tile = 0; tile < o.grid.tiles(); ++tile) {
    if (tile == o.grid.tile_of(session.rank())) continue;
    const Rect out = o.grid.tile(o.window_h.output(o.height), o.window_w.output(o.width), tile);
    if (out.empty()) continue;
    const Rect need{o.window_h.input(out.h), o.window_w.input(out.w)};
    for (std::int64_t h = array.tile().h.begin; h < array.tile().h.end; ++h) {
      for (std::int64_t w = array.tile().w.begin; w < array.tile().w.end; ++w) {
        places += h >= need.h.begin && h < need.h.end && w >= need.w.begin && w < need.w.end ? 1 : 0;
      }
    }
  }
  ASSERT_EQ(array.sent_bytes(), places * o.batch * o.channels * 8);

  const std::vector<double> random = noise(static_cast<std::int64_t>(x.size()), session.rank());
  const std::vector<double> hx = vector_of(array.get_fprop_view(random));
  const std::vector<double> y = noise(static_cast<std::int64_t>(hx.size()), session.rank() + 100);
  const std::vector<double> back = vector_of(array.get_bprop_view(y));
  const double left = sum_over_ranks(session, dot(hx, y));
  const double right = sum_over_ranks(session, dot(random, back));
  ASSERT_NEAR(left, right, 1e-10 * (1 + std::abs(left)));

  std::vector<double> whole(static_cast<std::size_t>(o.batch * o.height * o.width * o.channels));
  array.gather(x, whole);
  ASSERT_EQ(whole, values_of(o, {{0, o.height}, {0, o.width}}, group));
  std::vector<double> local(x.size());
  array.scatter(whole, local);
  ASSERT_EQ(local, x);
}

class Halos : public testing::TestWithParam<int> {};

TEST_P(Halos, AreWhatOutputsNeedOnAnyGrid) {
  const int ranks = GetParam();
  run_cluster(ranks, [&](Session& session) {
    std::mt19937 random(static_cast<unsigned>(ranks));  // the same on all ranks
    for (const Grid& grid : grids(ranks)) {
      for (int round = 0; round < 6; ++round) {
        const GlobalArrayOptions o = random_array(random, grid);
        SCOPED_TRACE(testing::Message() << grid.text() << " " << o.height << "x" << o.width << " h " << o.window_h.size
                                        << "/" << o.window_h.stride << " pad " << o.window_h.pad_begin << ","
                                        << o.window_h.pad_end << " dilation " << o.window_h.dilation);
        check_array(session, o);
        if (testing::Test::HasFatalFailure()) return;  // the failure ends the other ranks, too
      }
    }
    session.shutdown();
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, Halos, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 12));

TEST(Halo, OfTheWorkedExamples) {
  struct Worked {
    std::int64_t length, filter;
    int parts;
    std::vector<std::array<std::int64_t, 4>> expected;  // input, output, near, far
  };
  for (const Worked& w : std::vector<Worked>{{28, 5, 2, {{14, 12, 0, 2}, {14, 12, 2, 0}}},
                                             {28, 5, 4, {{7, 6, 0, 3}, {7, 6, 1, 2}, {7, 6, 2, 1}, {7, 6, 3, 0}}},
                                             {28, 4, 2, {{14, 13, 0, 2}, {14, 12, 1, 0}}}}) {
    const SlidingWindow window{.size = w.filter};
    for (int p = 0; p < w.parts; ++p) {
      const Interval in = part_of(w.length, w.parts, p);
      const Interval out = part_of(window.output(w.length), w.parts, p);
      const Interval need = window.input(out);
      EXPECT_EQ((std::array{in.size(), out.size(), in.begin - need.begin, need.end - in.end}),
                w.expected[static_cast<std::size_t>(p)]);
    }
  }
}

/// Two hosts, on which some pairs share memory and others exchange messages; and messages only.
TEST(Halo, TravelsBetweenHostsToo) {
  for (const auto& [ranks, hosts] : std::vector<std::pair<int, int>>{{4, 2}, {6, 3}, {3, 2}}) {
    SessionOptions options;
    options.split_hosts = hosts;
    run_cluster(
        ranks,
        [&, n = ranks](Session& session) {
          std::mt19937 random(77);
          for (const Grid& grid : grids(n)) {
            for (int round = 0; round < 2; ++round) {
              check_array(session, random_array(random, grid));
              if (testing::Test::HasFatalFailure()) return;  // the failure ends the other ranks, too
            }
          }
          session.shutdown();
        },
        options);
  }
}

/// All ranks need the whole vector, and each owns a part. Forward gathers, backward reduces and scatters. Pieces of the
/// batch overlap in time, and messages are larger than the engine's buffers.
TEST(Halo, GathersAndReducesInPieces) {
  for (const HaloPath path : {HaloPath::automatic, HaloPath::messages}) {
    run_cluster(4, [&](Session& session) {
      constexpr std::int64_t kLength = 50'003;
      HaloSpec spec{.name = "vector", .teams = {{3, 0}, {1, 2}}};
      spec.batch = 3;
      spec.pieces = 2;
      spec.dtype = DType::float64;
      spec.path = path;
      for (int m = 0; m < 2; ++m) {
        spec.own.push_back({part_of(kLength, 2, m), {0, 1}});
        spec.need.push_back({{0, kLength}, {0, 1}});
      }
      HaloExchange exchange(session, spec);
      const auto count = static_cast<std::size_t>(exchange.own().places() * 3);
      std::vector<double> own(count, session.rank() + 1.0);
      std::vector<double> all(kLength * 3);
      for (int again = 0; again < 3; ++again) {
        exchange.forward(own.data(), all.data());
        const bool first = session.rank() == 0 || session.rank() == 3;
        EXPECT_EQ(all.front(), first ? 4 : 2);
        EXPECT_EQ(all.back(), first ? 1 : 3);
        std::ranges::fill(all, session.rank() + 1.0);
        exchange.backward(all.data(), own.data());
        EXPECT_EQ(std::ranges::count(own, 5.0), static_cast<std::int64_t>(count));  // 4 + 1, 2 + 3
        std::ranges::fill(own, session.rank() + 1.0);
      }
      EXPECT_EQ(exchange.sent_bytes(), 3 * (exchange.planned_bytes() + (kLength * 3 * 8 - exchange.planned_bytes())));
      session.shutdown();
    });
  }
}

TEST(Halo, RefusesWhatCannotBe) {
  run_cluster(2, [](Session& session) {
    HaloSpec spec{.name = "h", .teams = {{0, 1}}, .own = {{{0, 4}, {0, 4}}, {{3, 8}, {0, 4}}}, .need = {{}, {}}};
    expect_error<InvalidArgument>([&] { const HaloExchange e(session, spec); }, {"\"h\"", "members 0 and 1"});
    spec.own[1] = {{4, 8}, {0, 4}};
    spec.teams = {{0, 0}};
    expect_error<InvalidArgument>([&] { const HaloExchange e(session, spec); }, {"rank 0", "twice"});
    spec.teams = {{0, 1, 2}};
    expect_error<InvalidArgument>([&] { const HaloExchange e(session, spec); }, {"3 ranks for 2"});
    spec.teams = {{0, 1}};
    HaloExchange exchange(session, spec);
    std::vector<float> own(16);
    expect_error<StateError>([&] { exchange.finish_forward(0, own.data(), own.data()); },
                             {"finished before it was started"});
    expect_error<InvalidArgument>([&] { exchange.begin_forward(1, own.data()); }, {"1 pieces", "piece 1"});
    expect_error<InvalidArgument>([&] { const GlobalArray a(session, {.height = 4, .width = 4, .grid = {3, 1, 1}}); },
                                  {"3x1", "3 ranks"});
    expect_error<InvalidArgument>(
        [&] { const GlobalArray a(session, {.height = 4, .width = 4, .grid = {2, 1, 1}, .window_h = {.size = 5}}); },
        {"5x1", "4x4"});
    GlobalArray array(session, {.name = "x", .height = 4, .width = 4, .grid = {2, 1, 1}});
    expect_error<InvalidArgument>([&] { (void)array.get_fprop_view(std::vector<float>(9)); },
                                  {"get_fprop_view", "\"x\"", "(1, 2, 4, 1)", "9 float32"});
    expect_error<InvalidArgument>([&] { (void)grid_named("2x2", 3); }, {"2x2", "4 ranks", "the world has 3"});
    expect_error<InvalidArgument>([&] { (void)grid_named("2x", 2); }, {"ROWSxCOLS", "\"2x\""});
    EXPECT_EQ(grid_named("2x3x2", 12), (Grid{2, 3, 2}));
    session.shutdown();
  });
}

TEST(Halo, WaitsForADeadRankEndWithItsName) {
  SessionOptions options;
  options.timeout = 600;
  try {
    run_cluster(
        2,
        [](Session& session) {
          GlobalArray array(session,
                            {.name = "x", .height = 4, .width = 4, .grid = {2, 1, 1}, .window_h = {.size = 3}});
          if (session.rank() == 1) throw std::runtime_error("gone");
          expect_error<TransportError>([&] { (void)array.get_fprop_view(std::vector<float>(8)); },
                                       {"exchange", "rank 1"});
        },
        options);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "gone");
  }
}

}  // namespace
}  // namespace pleiad
