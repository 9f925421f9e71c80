// Compares every update rule in a table with the same rule applied to plain vectors in the same order, bit for bit.
#include <algorithm>
#include <map>
#include <numeric>

#include "tests/table/tables.h"
#include "updater/updater.h"

namespace pleiad {

using namespace conformance;

namespace {

constexpr std::int64_t kBlockBytes = 128 * 1024;

/// A table in the memory of one process.
template <class T>
class SerialTable {
 public:
  SerialTable(const UpdaterOptions& options, std::int64_t units, std::int64_t unit_length, std::int64_t size,
              int workers, std::vector<T> initial)
      : options_(resolve_dialect(options)),
        rule_(make_updater(options, dtype_of<T>)),
        layout_(rule_->state()),
        unit_length_(unit_length),
        values_(std::move(initial)),
        per_unit_(static_cast<std::size_t>(units * layout_.per_unit)) {
    if (values_.empty()) values_.resize(static_cast<std::size_t>(size));
    per_element_.assign(static_cast<std::size_t>(layout_.per_element), std::vector<T>(values_.size()));
    per_worker_.assign(static_cast<std::size_t>(workers * layout_.per_worker),
                       layout_.per_worker_starts_as_value ? values_ : std::vector<T>(values_.size()));
  }

  /// One add of one unit.
  void add(int worker, std::int64_t unit, std::span<const T> delta, const AddOptions& options) {
    const auto first = static_cast<std::size_t>(unit * unit_length_);
    Update<T> update;
    update.value = values_.data() + first;
    update.delta = delta.data();
    update.count = delta.size();
    std::size_t k = 0;
    for (auto& state : per_element_) update.state[k++] = state.data() + first;
    for (int s = 0; s < layout_.per_worker; ++s) {
      update.state[k++] = per_worker_[static_cast<std::size_t>(worker * layout_.per_worker + s)].data() + first;
    }
    if (layout_.per_unit > 0) update.unit = per_unit_.data() + unit * layout_.per_unit;
    update.rates = merge(options_, options);
    rule_->apply(update);
  }

  void add_all(int worker, const std::vector<T>& delta, const AddOptions& options) {
    const auto length = static_cast<std::size_t>(unit_length_);
    for (std::size_t at = 0; at < delta.size(); at += length) {
      add(worker, static_cast<std::int64_t>(at / length),
          std::span(delta).subspan(at, std::min(length, delta.size() - at)), options);
    }
  }

  /// Rows named twice are summed first.
  void add_rows(int worker, const std::vector<RowId>& ids, const std::vector<T>& delta, const AddOptions& options) {
    std::map<RowId, std::vector<T>> sums;
    const auto length = static_cast<std::size_t>(unit_length_);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto row = std::span(delta).subspan(i * length, length);
      auto& sum = sums.try_emplace(ids[i], length).first->second;
      for (std::size_t j = 0; j < length; ++j) sum[j] += row[j];
    }
    for (const auto& [id, sum] : sums) add(worker, id, sum, options);
  }

  const std::vector<T>& values() const { return values_; }

 private:
  UpdaterOptions options_;
  std::unique_ptr<Updater> rule_;
  StateLayout layout_;
  std::int64_t unit_length_;
  std::vector<T> values_;
  std::vector<std::vector<T>> per_element_;
  std::vector<std::vector<T>> per_worker_;
  std::vector<double> per_unit_;
};

template <class T>
std::vector<T> gradients(std::size_t count, std::uint64_t seed) {
  auto values = whole_numbers<T>(count, seed);
  for (T& value : values) value = value / 250 - 2;
  return values;
}

std::vector<UpdaterOptions> rules() {
  std::vector<std::string> names = updater_names();
  std::ranges::copy(dialect_names(), std::back_inserter(names));
  std::vector<UpdaterOptions> all;
  for (const std::string& name : names) {
    all.push_back({.rule = name, .learning_rate = 0.07, .momentum = 0.6, .rho = 0.2, .lambda = 0.3});
  }
  // Variants that have no name of their own.
  all.push_back({.rule = "adagrad", .learning_rate = 0.3, .per_worker = true});
  all.push_back({.rule = "adam", .bias_correction = false, .epsilon_inside_root = true});
  all.push_back(
      {.rule = "momentum", .momentum = 0.9, .weight_decay = 0.01, .scale = 0.5, .clip_low = -1, .clip_high = 1});
  all.push_back({.rule = "sgd", .weight_decay = 0.1, .ascend = true});
  return all;
}

std::vector<AddOptions> steps() {
  return {{},
          {.learning_rate = 0.2},
          {.momentum = 0.25},
          {.learning_rate = 0.01, .momentum = 0.5, .rho = 0.4, .lambda = 0.05},
          {.rho = 0.7},
          {}};
}

// One worker's add. The workers add in turn, so the order is known.
template <class T>
struct Turn {
  int worker = 0;
  bool whole = true;
  std::vector<RowId> ids;  // unless whole; sorted, so that duplicate rows are summed in a defined order
  std::vector<T> delta;
  AddOptions options;
};

template <class T>
std::vector<Turn<T>> turns(Session& session, std::int64_t rows, std::int64_t cols, bool by_rows, bool distinct) {
  std::mt19937_64 random(5);
  std::vector<Turn<T>> all;
  for (const AddOptions& options : steps()) {
    Turn<T> turn;
    turn.worker = static_cast<int>(random() % static_cast<std::uint64_t>(session.size()));
    turn.options = options;
    turn.whole = !by_rows || all.size() % 3 == 0;
    turn.ids.resize(turn.whole ? 0 : 1 + random() % 12);
    std::ranges::generate(turn.ids, [&] { return static_cast<RowId>(random() % static_cast<std::uint64_t>(rows)); });
    std::ranges::sort(turn.ids);
    if (distinct) turn.ids.erase(std::ranges::unique(turn.ids).begin(), turn.ids.end());
    const std::size_t count = turn.whole ? static_cast<std::size_t>(rows) : turn.ids.size();
    turn.delta = gradients<T>(count * static_cast<std::size_t>(cols), random());
    all.push_back(std::move(turn));
  }
  return all;
}

template <class T>
void check_arrays(Session& session, std::int64_t size) {
  const std::int64_t block = kBlockBytes / static_cast<std::int64_t>(sizeof(T));
  const auto initial = gradients<T>(static_cast<std::size_t>(size), 77);
  const auto program = turns<T>(session, 1, size, false, true);
  for (const UpdaterOptions& rule : rules()) {
    TableOptions options = options_of<T>();
    options.updater = rule;
    const ArrayTable table = session.create_array(size, options, initial);
    SerialTable<T> expected(rule, (size + block - 1) / block, block, size, session.workers(), initial);
    for (const Turn<T>& turn : program) {
      if (session.rank() == turn.worker) table.add(turn.delta, turn.options);
      expected.add_all(turn.worker, turn.delta, turn.options);
      session.barrier();
    }
    ASSERT_EQ(all_of<T>(table), expected.values()) << rule.rule;
    session.barrier();
  }
}

template <class T>
void check_matrices(Session& session, std::int64_t rows, std::int64_t cols) {
  const auto initial = gradients<T>(static_cast<std::size_t>(rows * cols), 78);
  const auto repeated = turns<T>(session, rows, cols, true, false);
  const auto distinct = turns<T>(session, rows, cols, true, true);
  for (const UpdaterOptions& rule : rules()) {
    TableOptions options = options_of<T>();
    options.updater = rule;
    const MatrixTable table = session.create_matrix(rows, cols, options, initial);
    SerialTable<T> expected(rule, rows, cols, rows * cols, session.workers(), initial);
    // If a rule is additive, the deltas of a row that occurs twice may be summed first or applied one by one; the
    // results differ by rounding only.
    for (const Turn<T>& turn : make_updater(rule, dtype_of<T>)->additive() ? distinct : repeated) {
      const bool mine = session.rank() == turn.worker;
      if (turn.whole) {
        if (mine) table.add(turn.delta, turn.options);
        expected.add_all(turn.worker, turn.delta, turn.options);
      } else {
        if (mine) table.add_rows(turn.ids, turn.delta, turn.options);
        expected.add_rows(turn.worker, turn.ids, turn.delta, turn.options);
      }
      session.barrier();
    }
    ASSERT_EQ(all_of<T>(table), expected.values()) << rule.rule;
    session.barrier();
  }
}

}  // namespace

CASE(Rule, ThroughAnArrayGivesTheBitsOfTheRuleItself) {
  check_arrays<float>(session, 37);
  check_arrays<double>(session, 37);
  check_arrays<float>(session, 33'000);  // two blocks, the second one shorter
}

CASE(Rule, ThroughAMatrixGivesTheBitsOfTheRuleItself) {
  check_matrices<float>(session, 9, 7);
  check_matrices<double>(session, 9, 7);
  check_matrices<double>(session, 40, 1000);  // three stripes
}

CASE_FOR(Rule, PerWorkerStateIsEachWorkersOwn, 2) {
  TableOptions options = options_of<double>();
  options.updater = {.rule = "adagrad", .learning_rate = 1, .epsilon = 0, .per_worker = true};
  const ArrayTable own = session.create_array(1, options);
  options.updater.per_worker = false;
  const ArrayTable shared = session.create_array(1, options);
  for (int turn = 0; turn < session.size(); ++turn) {
    if (session.rank() == turn) {
      own.add(std::vector<double>{3});
      shared.add(std::vector<double>{3});
    }
    session.barrier();
  }
  // With a history per worker, each worker's step is g / sqrt(g^2) = 1. With a shared history, every further step is
  // shorter.
  EXPECT_EQ(all_of<double>(own)[0], -static_cast<double>(session.size()));
  EXPECT_GT(all_of<double>(shared)[0], -static_cast<double>(session.size()));
}

CASE(Rule, TheShadowOfDcasgdStartsAsTheInitialValue) {
  TableOptions options = options_of<double>();
  options.updater = {.rule = "dcasgd", .learning_rate = 0.5, .lambda = 1};
  const MatrixTable table = session.create_matrix(2, 2, options, std::vector<double>{10, 20, 30, 40});
  if (session.rank() == session.size() - 1) table.add_row(1, std::vector<double>{2, 4});
  session.barrier();
  // value == shadow: no compensation, value -= 0.5 * g. With a shadow of zero, the result would be 30 - 0.5 * (2 + 4 *
  // 30).
  EXPECT_EQ(all_of<double>(table), (std::vector<double>{10, 20, 29, 38}));
  session.barrier();
  if (session.size() > 1 && session.rank() == 0) {
    table.add_row(1, std::vector<double>{2, 4});
    // This worker last read 30 and 40. The other worker has since changed them by -1 and -2.
    EXPECT_EQ(rows_of<double>(table, {1}), (std::vector<double>{29 - 0.5 * (2 - 4), 38 - 0.5 * (4 - 2 * 16)}));
  }
}

CASE(Rule, ABadNumberInAnAddIsRefusedAndNothingIsAdded) {
  TableOptions options;
  options.updater = {.rule = "momentum", .learning_rate = 0.1, .momentum = 0.5};
  const ArrayTable table = session.create_array(2, options);
  const std::vector<float> delta = {1, 1};
  EXPECT_TRUE(
      mentions(message_of<InvalidArgument>([&] { table.add(delta, {.learning_rate = -1}); }), {"learning_rate", "-1"}));
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.add(delta, {.momentum = 1.5}); }), {"momentum", "1.5"}));
  EXPECT_TRUE(
      mentions(message_of<InvalidArgument>([&] { (void)table.add_async(delta, {.momentum = -0.5}); }), {"momentum"}));
  EXPECT_EQ(all_of<float>(table), std::vector<float>(2));
}

CASE(Rule, SgdWithANumberForEveryAddMovesByThatNumber) {
  TableOptions options = options_of<double>();
  options.updater = {.rule = "sgd", .learning_rate = 1};
  const ArrayTable table = session.create_array(1, options);
  table.add(std::vector<double>{1});
  table.add(std::vector<double>{1}, {.learning_rate = 0.25});
  (void)table.add_async(std::vector<double>{1}, {.learning_rate = 0.5});
  session.barrier();
  EXPECT_EQ(all_of<double>(table)[0], -1.75 * session.size());
}

}  // namespace pleiad
