// Invalid calls on tables: the messages of their errors, and that the tables still work afterwards.
#include <chrono>
#include <cmath>
#include <limits>
#include <thread>

#include "tests/eventually.h"
#include "tests/table/tables.h"

namespace pleiad {

using namespace conformance;

namespace {

// Checks that the session can still create and use tables on every rank.
void expect_usable(Session& session) {
  const ArrayTable table = session.create_array(5, {.name = "next"});
  table.add(std::vector<float>{1, 2, 3, 4, 5});
  session.barrier();
  EXPECT_EQ(all_of<float>(table)[4], static_cast<float>(5 * session.size()));
  session.barrier();
}

template <class E>
std::string refused_array(Session& session, std::int64_t size, const TableOptions& options, ConstView initial = {}) {
  return message_of<E>([&] { (void)session.create_array(size, options, initial); });
}

}  // namespace

CASE(Refusal, WrongSizeNamesTableAndBothSizes) {
  const ArrayTable array = session.create_array(7850, {.name = "weights"});
  const MatrixTable matrix = session.create_matrix(10, 4, {.name = "rows"});
  std::vector<float> wrong(7840, 1);
  for (const std::string& text : {message_of<InvalidArgument>([&] { array.add(wrong); }),
                                  message_of<InvalidArgument>([&] { (void)array.add_async(wrong); }),
                                  message_of<InvalidArgument>([&] { array.get(wrong); }),
                                  message_of<InvalidArgument>([&] { (void)array.get_async(wrong); })}) {
    EXPECT_TRUE(mentions(text, {"ArrayTable", "weights", "7,850", "7,840"}));
  }
  std::vector<float> five(5, 1);
  const std::vector<RowId> ids = {1, 2};
  for (const std::string& text : {message_of<InvalidArgument>([&] { matrix.add_rows(ids, five); }),
                                  message_of<InvalidArgument>([&] { (void)matrix.add_rows_async(ids, five); }),
                                  message_of<InvalidArgument>([&] { matrix.get_rows(ids, five); }),
                                  message_of<InvalidArgument>([&] { (void)matrix.get_rows_async(ids, five); })}) {
    EXPECT_TRUE(mentions(text, {"MatrixTable", "rows", "2 rows of 4", "8", "5"}));
  }
  message_of<InvalidArgument>([&] { matrix.get_row(0, five); });
  message_of<InvalidArgument>([&] { matrix.add(five); });
  EXPECT_EQ(all_of<float>(array), std::vector<float>(7850)) << "a refused add changed the table";
  EXPECT_EQ(all_of<float>(matrix), std::vector<float>(40)) << "a refused add changed the table";
  EXPECT_EQ(array.stats().adds, 0U);
}

CASE(Refusal, WrongTypeNamesBothTypes) {
  const ArrayTable table = session.create_array(3, {.name = "weights"});
  const MatrixTable longs = session.create_matrix(3, 1, options_of<std::int64_t>({.name = "longs"}));
  std::vector<double> doubles(3);
  std::vector<std::int32_t> ints(3);
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.add(doubles); }), {"weights", "float32", "float64"}));
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { table.get(doubles); }), {"weights", "float32", "float64"}));
  EXPECT_TRUE(mentions(message_of<InvalidArgument>([&] { longs.add(ints); }), {"longs", "int64", "int32"}));
  EXPECT_TRUE(
      mentions(message_of<InvalidArgument>([&] { longs.get_rows(std::vector<RowId>{1}, std::vector<float>(1)); }),
               {"longs", "int64", "float32"}));
  EXPECT_TRUE(
      mentions(message_of<InvalidArgument>([&] { table.add(ConstView(nullptr, 3, DType::float32)); }), {"null"}));
}

CASE(Refusal, ARowOutOfRangeIsNamedWithItsPosition) {
  const MatrixTable table = session.create_matrix(10, 2, {.name = "embedding"});
  std::vector<float> values(6, 1);
  for (const RowId bad : {RowId{10}, RowId{-1}, std::numeric_limits<RowId>::max(), std::numeric_limits<RowId>::min()}) {
    const std::vector<RowId> ids = {0, 9, bad};
    for (const std::string& text : {message_of<InvalidArgument>([&] { table.add_rows(ids, values); }),
                                    message_of<InvalidArgument>([&] { (void)table.add_rows_async(ids, values); }),
                                    message_of<InvalidArgument>([&] { table.get_rows(ids, values); }),
                                    message_of<InvalidArgument>([&] { (void)table.get_rows_async(ids, values); })}) {
      EXPECT_TRUE(mentions(text, {"embedding", "0 to 9", "row id " + std::to_string(bad), "position 2"}));
    }
  }
  EXPECT_EQ(all_of<float>(table), std::vector<float>(20)) << "a refused add changed the table";
}

CASE(Refusal, NotANumberIsRefusedWhereFiniteIsCheckedAndNothingIsAdded) {
  const auto check = [&]<class T>() {
    TableOptions options = options_of<T>({.name = "weights"});
    options.check_finite = true;
    const ArrayTable array = session.create_array(40000, options);
    const MatrixTable matrix = session.create_matrix(5, 3, options);
    for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                        -std::numeric_limits<T>::infinity()}) {
      std::vector<T> delta(40000, 1);
      delta[39999] = bad;  // in the last stripe: the earlier stripes must not change either
      for (const std::string& text : {message_of<InvalidArgument>([&] { array.add(delta); }),
                                      message_of<InvalidArgument>([&] { (void)array.add_async(delta); })}) {
        EXPECT_TRUE(mentions(text, {"weights", "check_finite", "39,999", "nothing was added"}));
      }
      const std::vector<RowId> ids = {1, 2};
      message_of<InvalidArgument>([&] { matrix.add_rows(ids, std::vector<T>{1, 2, 3, 4, bad, 6}); });
    }
    EXPECT_EQ(all_of<T>(array), std::vector<T>(40000));
    EXPECT_EQ(all_of<T>(matrix), std::vector<T>(15));
    session.barrier();
    array.add(std::vector<T>(40000, std::numeric_limits<T>::max() / 8));
    session.barrier();
    EXPECT_EQ(all_of<T>(array)[0], std::numeric_limits<T>::max() / 8 * static_cast<T>(session.size()));
    options.check_finite = false;
    const ArrayTable loose = session.create_array(1, options);
    loose.add(std::vector<T>{std::numeric_limits<T>::quiet_NaN()});
    EXPECT_TRUE(std::isnan(all_of<T>(loose)[0]));
    session.barrier();
  };
  check.operator()<float>();
  check.operator()<double>();
}

CASE(Refusal, AnUnknownNameIsAnsweredWithTheNearest) {
  TableOptions options;
  options.updater.rule = "adma";
  EXPECT_TRUE(
      mentions(refused_array<InvalidArgument>(session, 3, options), {"\"adma\"", "adagrad", "did you mean \"adam\""}));
  options.updater.rule = "multiverso/momentum_sdg";
  EXPECT_TRUE(
      mentions(refused_array<InvalidArgument>(session, 3, options), {"did you mean \"multiverso/momentum_sgd\""}));
  options = {};
  options.clock = "synch";
  EXPECT_TRUE(
      mentions(refused_array<InvalidArgument>(session, 3, options), {"clock", "async", "did you mean \"sync\""}));
  options = {};
  options.apply = "rounds";
  EXPECT_TRUE(mentions(refused_array<InvalidArgument>(session, 3, options), {"apply", "did you mean \"round\""}));
  expect_usable(session);
}

CASE(Refusal, SizesBelowOneAreRefused) {
  EXPECT_TRUE(mentions(refused_array<InvalidArgument>(session, 0, {}), {"at least one", "received 0"}));
  EXPECT_TRUE(mentions(refused_array<InvalidArgument>(session, -5, {}), {"at least one", "received -5"}));
  for (const auto& [rows, cols] : {std::pair{0, 3}, std::pair{3, 0}, std::pair{-1, 3}, std::pair{-2, -2}}) {
    const std::string text = message_of<InvalidArgument>([&] { (void)session.create_matrix(rows, cols); });
    EXPECT_TRUE(mentions(text, {std::to_string(rows) + " x " + std::to_string(cols)}));
  }
  expect_usable(session);
}

CASE(Refusal, OptionsThatContradictEachOtherAreRefused) {
  TableOptions options;
  options.apply = "round";
  EXPECT_TRUE(mentions(refused_array<InvalidArgument>(session, 3, options), {"round", "sync"}));
  options = {.clock = "sync", .ordered = true};
  EXPECT_TRUE(mentions(refused_array<InvalidArgument>(session, 3, options), {"ordered", "round"}));
  options = {.clock = "sync", .apply = "round"};
  options.updater.rule = "multiverso/adagrad";
  EXPECT_TRUE(mentions(refused_array<InvalidArgument>(session, 3, options), {"round", "each worker"}));
  options = options_of<std::int32_t>();
  options.updater.rule = "adam";
  EXPECT_TRUE(mentions(refused_array<InvalidArgument>(session, 3, options), {"int32", "sum", "adam"}));
  options = {.init_rank = session.size()};
  EXPECT_TRUE(
      mentions(refused_array<InvalidArgument>(session, 3, options), {"init_rank", std::to_string(session.size())}));
  options = {.init_rank = -1};
  EXPECT_TRUE(mentions(refused_array<InvalidArgument>(session, 3, options), {"init_rank", "-1"}));
  expect_usable(session);
}

CASE(Refusal, WrongInitialValuesOfTheInitRankAreAnErrorOnAllRanks) {
  const std::vector<float> two = {1, 2};
  EXPECT_TRUE(mentions(refused_array<InvalidArgument>(session, 3, {.name = "w"}, two), {"\"w\"", "3", "2"}));
  const std::vector<double> doubles = {1, 2, 3};
  EXPECT_TRUE(
      mentions(refused_array<InvalidArgument>(session, 3, {.name = "w"}, doubles), {"\"w\"", "float32", "float64"}));
  expect_usable(session);
}

CASE_FOR(Refusal, TheMistakeOfOneRankIsAnErrorOnAllAndNamesIt, 2) {
  TableOptions options;
  if (session.rank() == 1) options.updater.rule = "adma";
  const std::string text = refused_array<InvalidArgument>(session, 3, options);
  EXPECT_TRUE(mentions(text, {"adma"}));
  EXPECT_TRUE(session.rank() == 1 || mentions(text, {rank_words(1)}));
  expect_usable(session);
}

CASE_FOR(Refusal, TablesThatDifferBetweenRanksAreAnOrderErrorOnAllAndNameBoth, 2) {
  const int odd = session.size() - 1;
  const bool differs = session.rank() == odd;
  const auto create = [&](const TableOptions& options, std::int64_t size, bool matrix = false) {
    const std::string text = message_of<OrderError>([&] {
      if (matrix) {
        (void)session.create_matrix(size, 1, options);
      } else {
        (void)session.create_array(size, options);
      }
    });
    EXPECT_TRUE(mentions(text, {rank_words(0), rank_words(odd)}));
    return text;
  };
  EXPECT_TRUE(mentions(create({.name = differs ? "second" : "first"}, 3), {"\"first\"", "\"second\""}));
  EXPECT_TRUE(mentions(create({.name = "w"}, differs ? 4000 : 3000), {"3,000", "4,000"}));
  TableOptions type{.name = "w"};
  if (differs) type.dtype = DType::float64;
  EXPECT_TRUE(mentions(create(type, 3), {"float32", "float64"}));
  EXPECT_TRUE(mentions(create({.name = "w"}, 3, differs), {"array", "matrix"}));
  EXPECT_TRUE(mentions(create({.name = "w", .clock = differs ? "sync" : "async"}, 3), {"async", "sync"}));
  EXPECT_TRUE(mentions(create({.name = "w", .init_rank = differs ? 1 : 0}, 3), {"init_rank 0", "init_rank 1"}));
  expect_usable(session);
}

CASE_FOR(Refusal, RulesThatDifferInAnyNumberBetweenRanksAreAnOrderError, 2) {
  const bool differs = session.rank() == 1;
  const auto create = [&](const UpdaterOptions& updater) {
    TableOptions options;
    options.updater = updater;
    message_of<OrderError>([&] { (void)session.create_array(3, options); });
  };
  create({.rule = differs ? "adam" : "adagrad"});
  create({.rule = "sgd", .learning_rate = differs ? 0.1 : 0.2});
  create({.rule = "adam", .beta1 = differs ? 0.9 : 0.8});
  create({.rule = "adam", .epsilon = differs ? 1e-8 : 1e-7});
  create({.rule = "sgd", .weight_decay = differs ? 0 : 0.1});
  create({.rule = "sgd", .clip_low = -1, .clip_high = differs ? 1.0 : 2.0});
  create({.rule = "sgd", .ascend = differs});
  expect_usable(session);
}

CASE_FOR(Refusal, TablesWithLongNamesAreComparedToo, 2) {
  const std::string name(2000, 'n');
  const std::string text =
      message_of<OrderError>([&] { (void)session.create_array(session.rank() == 1 ? 100'000 : 100, {.name = name}); });
  EXPECT_TRUE(mentions(text, {rank_words(0), rank_words(1)}));
  const ArrayTable table = session.create_array(3, {.name = name});
  EXPECT_EQ(table.name(), name);
}

CASE(Refusal, MissingMemoryIsAnErrorOnAllRanksAndTheSessionContinues) {
  const TableOptions options{.name = "huge"};
  EXPECT_TRUE(
      mentions(refused_array<MemoryError>(session, std::int64_t{1} << 50U, options), {"no memory", "available"}));
  const std::string text = message_of<MemoryError>(
      [&] { (void)session.create_matrix(std::numeric_limits<std::int64_t>::max() / 2, 1000, options); });
  EXPECT_TRUE(mentions(text, {"no memory"}));
  TableOptions reserved = options;
  reserved.reserve_only = true;  // takes no memory, but exceeds the address space
  refused_array<MemoryError>(session, std::int64_t{1} << 52U, reserved);
  expect_usable(session);
}

CASE_FOR(Refusal, ATableThatWasRefusedBesideABarrierLeavesNoTrace, 2) {
  std::vector<float> word(1);
  std::thread other([&] {
    if (session.rank() != 0) session.receive(0, 1, word);
    session.barrier();
  });
  if (session.rank() == 0) {
    EXPECT_TRUE(eventually([&] { return waits_in(session, "barrier"); }));
    message_of<StateError>([&] { (void)session.create_array(3); });
    for (int r = 1; r < session.size(); ++r) session.send(r, 1, word);
  }
  other.join();
  const ArrayTable table = session.create_array(3);
  EXPECT_EQ(table.id(), 0U);
}

}  // namespace pleiad
