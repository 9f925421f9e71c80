// multiverso/multiverso.h: guarantees of the classes that tests/outside/mv_cxx.cc does not use. Runs alone and under
// mpirun.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "multiverso/multiverso.h"
#include "multiverso/table/array_table.h"
#include "multiverso/table/matrix_table.h"
#include "multiverso/util/configure.h"
#include "pleiad/pleiad.h"

namespace multiverso {
namespace {

/// Returns the code of the last failed call, and clears it.
int taken_code() {
  const int code = pleiad_last_error_code();
  pleiad_clear_error();
  return code;
}

std::string taken_words() {
  std::string words = pleiad_last_error();
  pleiad_clear_error();
  return words;
}

class MvCxx : public ::testing::Test {
 protected:
  void SetUp() override {
    pleiad_clear_error();
    MV_SetFlag("log_level", "off");
    MV_SetFlag("timeout", 600);
    MV_SetFlag("sync", false);
    MV_Init();
    ASSERT_EQ(taken_code(), PLEIAD_OK);
  }
  void TearDown() override {
    MV_Barrier();
    MV_ShutDown();
    EXPECT_EQ(taken_words(), "");
  }
};

TEST(MvCxxWithoutSession, EveryCallFailsAndTheProcessLives) {
  pleiad_clear_error();
  MV_SetFlag("log_level", "off");
  for (int (*const call)() : {MV_Rank, MV_Size, MV_NumWorkers, MV_NumServers, MV_WorkerId, MV_ServerId}) {
    EXPECT_EQ(call(), -1);
    EXPECT_EQ(taken_code(), PLEIAD_STATE);
  }
  EXPECT_EQ(MV_WorkerIdToRank(0), -1);
  EXPECT_EQ(taken_code(), PLEIAD_STATE);
  EXPECT_EQ(MV_CreateTable(ArrayTableOption<float>(3)), nullptr);
  EXPECT_NE(taken_words().find("MV_Init"), std::string::npos);
  float number = 7;
  MV_Aggregate(&number, 1);
  EXPECT_EQ(taken_code(), PLEIAD_STATE);
  EXPECT_EQ(number, 7);
  ArrayWorker<float> table(3);
  EXPECT_FALSE(table.created());
  pleiad_clear_error();
  table.Get(&number, 1);
  EXPECT_EQ(taken_code(), PLEIAD_STATE);
  EXPECT_EQ(table.GetAsync(&number, 1), -1);
  EXPECT_EQ(taken_code(), PLEIAD_STATE);
  table.Wait(0);
  EXPECT_EQ(taken_code(), PLEIAD_STATE);
  EXPECT_EQ(AddOption().worker_id(), -1);
  EXPECT_EQ(taken_code(), PLEIAD_OK);
}

TEST_F(MvCxx, ALauncherStartsTheWorld) {
  char endpoint[] = "localhost:5555";
  char* endpoints[] = {endpoint};
  int rank = 0;
  EXPECT_EQ(MV_NetBind(0, endpoint), -1);
  EXPECT_NE(taken_words().find("mpirun"), std::string::npos);
  EXPECT_EQ(MV_NetConnect(&rank, endpoints, 1), -1);
  EXPECT_EQ(taken_code(), PLEIAD_STATE);
  MV_NetFinalize();
  EXPECT_EQ(taken_code(), PLEIAD_OK);
}

TEST_F(MvCxx, IdsThatDoNotExistAreRefused) {
  EXPECT_EQ(MV_WorkerIdToRank(MV_NumWorkers()), -1);
  EXPECT_EQ(taken_code(), PLEIAD_INVALID_ARGUMENT);
  EXPECT_EQ(MV_ServerIdToRank(-1), -1);
  EXPECT_EQ(taken_code(), PLEIAD_INVALID_ARGUMENT);
}

TEST_F(MvCxx, FlagsThatDoNotExistAreRefusedWithTheNearest) {
  MV_SetFlag("updater_typ", std::string("sgd"));
  EXPECT_NE(taken_words().find("did you mean \"updater_type\""), std::string::npos);
  MV_SetFlag("updater_type", std::string("sdg"));
  EXPECT_NE(taken_words().find("did you mean \"sgd\""), std::string::npos);
  SetCMDFlag("sync", std::string("perhaps"));
  EXPECT_EQ(taken_code(), PLEIAD_INVALID_ARGUMENT);
}

TEST_F(MvCxx, FlagsCountForTheNextTable) {
  std::vector<float> delta = {1, 2};
  std::vector<float> values(2);
  MV_SetFlag("updater_type", "sgd");
  const std::unique_ptr<ArrayWorker<float>> down(MV_CreateTable(ArrayTableOption<float>(2)));
  MV_SetFlag("updater_type", "default");
  const std::unique_ptr<ArrayWorker<float>> up(MV_CreateTable(ArrayTableOption<float>(2)));
  ASSERT_TRUE(down != nullptr && up != nullptr);
  const auto workers = static_cast<float>(MV_NumWorkers());
  down->Add(delta.data(), 2);
  up->Add(delta.data(), 2);
  MV_Barrier();
  down->Get(values.data(), 2);
  EXPECT_EQ(values, (std::vector<float>{-workers, -2 * workers}));
  up->Get(values.data(), 2);
  EXPECT_EQ(values, (std::vector<float>{workers, 2 * workers}));
}

TEST_F(MvCxx, AnIntegerTableSumsWhateverTheUpdater) {
  MV_SetFlag("updater_type", "adagrad");
  MV_SetFlag("updater.rho", 0.5);
  const std::unique_ptr<ArrayWorker<int>> table(MV_CreateTable(ArrayTableOption<int>(1)));
  MV_SetFlag("updater_type", "default");
  MV_SetFlag("updater.rho", 0.1);
  ASSERT_NE(table, nullptr);
  int number = 3;
  AddOption option;
  option.set_learning_rate(0.5F);
  table->Add(&number, 1, &option);
  MV_Barrier();
  table->Get(&number, 1);
  EXPECT_EQ(number, 3 * MV_NumWorkers());
}

TEST_F(MvCxx, WrongSizesRowsAndPointersLeaveTheOutputsAlone) {
  const std::unique_ptr<MatrixWorkerTable<double>> table(MV_CreateTable(MatrixTableOption<double>(4, 3)));
  ASSERT_NE(table, nullptr);
  std::vector<double> out(12, 7);
  const std::vector<double> untouched = out;
  const auto refused = [&](const char* what) {
    EXPECT_EQ(taken_code(), PLEIAD_INVALID_ARGUMENT) << what;
    EXPECT_EQ(out, untouched) << what;
  };
  std::vector<integer_t> ids = {0, 4};
  table->Get(out.data(), 11);
  refused("size");
  table->Get(4, out.data(), 3);
  refused("row");
  table->Get(-2, out.data(), 3);
  refused("negative row");
  table->Get(-1, out.data(), 3);
  refused("the whole table needs its size");
  table->Get(out.data(), 6, ids.data(), 2);
  refused("rows");
  table->Get(out.data(), 6, ids.data(), -1);
  refused("number of rows");
  table->Get(ids, {&out[0], &out[3]}, 3);
  refused("rows apart");
  table->Get({0, 1}, {&out[0]}, 3);
  refused("pointers");
  table->Get({0, 1}, {&out[0], nullptr}, 3);
  refused("null");
  table->Get({0, 1}, {&out[0], &out[3]}, 4);
  refused("row size");
  table->Add(nullptr, 12);
  refused("null add");
  EXPECT_EQ(table->AddAsync({0, 9}, {&out[0], &out[3]}, 3), -1);
  refused("add apart");
  EXPECT_EQ(table->GetAsync({0, 9}, {&out[0], &out[3]}, 3), -1);
  refused("get apart");
  table->Wait(5);
  refused("nothing was started");
  table->Wait(-1);
  refused("unknown operation id -1");
  MV_Barrier();
  table->Get(-1, out.data(), 12);
  EXPECT_EQ(out, std::vector<double>(12, 0)) << "-1 stands for the whole table";
}

TEST_F(MvCxx, OptionsCountForTheirAdd) {
  MV_SetFlag("updater_type", "momentum_sgd");
  MV_SetFlag("updater.momentum", 0.25);
  const std::unique_ptr<MatrixWorkerTable<double>> table(MV_CreateTable(MatrixTableOption<double>(2, 2)));
  MV_SetFlag("updater_type", "default");
  MV_SetFlag("updater.momentum", 0.0);
  ASSERT_NE(table, nullptr);
  AddOption option;
  option.set_momentum(0.5F);
  std::vector<double> delta = {8, 16};
  std::vector<double> values(4);
  if (MV_WorkerId() == 0) {
    table->Wait(table->AddAsync(0, delta.data(), 2, &option));  // s = 0.5 * 8
    table->Add({1}, {delta.data()}, 2);                         // s = 0.75 * 8
  }
  MV_Barrier();
  table->Get(values.data(), 4);
  EXPECT_EQ(values, (std::vector<double>{-4, -8, -6, -12}));
}

TEST_F(MvCxx, RowsAreStoredInTheirBuffersOnWait) {
  for (const bool sync : {false, true}) {
    MV_SetFlag("sync", sync);
    const std::unique_ptr<MatrixWorkerTable<int>> table(MV_CreateTable(MatrixTableOption<int>(6, 2)));
    ASSERT_NE(table, nullptr);
    std::vector<int> delta = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    table->Add(delta.data(), 12);
    MV_Barrier();
    std::vector<int> first(2, -1);
    std::vector<int> again(2, -1);
    std::vector<int> last(2, -1);
    table->Wait(table->GetAsync({1, 5, 1}, {first.data(), last.data(), again.data()}, 2));
    const int n = MV_NumWorkers();
    EXPECT_EQ(first, (std::vector<int>{2 * n, 3 * n}));
    EXPECT_EQ(again, first);
    EXPECT_EQ(last, (std::vector<int>{10 * n, 11 * n}));
    table->Wait(table->GetAsync(std::vector<integer_t>(), std::vector<int*>(), 2));
  }
}

TEST_F(MvCxx, AddsWithoutAWaitDoNotAccumulate) {
  MV_SetFlag("sync", true);
  const std::unique_ptr<ArrayWorker<int>> table(MV_CreateTable(ArrayTableOption<int>(4)));
  ASSERT_NE(table, nullptr);
  std::vector<int> delta = {1, 2, 3, 4};
  std::vector<int> values(4);
  int last = -1;
  for (int i = 0; i < 1000; ++i) {
    const int id = table->AddAsync(delta.data(), 4);
    EXPECT_EQ(id, last + 1);
    last = id;
  }
  table->Wait(table->GetAsync(values.data(), 4));
  table->Wait(last);
  table->Wait(last);
  EXPECT_EQ(values, (std::vector<int>{1000 * MV_NumWorkers(), 2000 * MV_NumWorkers(), 3000 * MV_NumWorkers(),
                                      4000 * MV_NumWorkers()}));
}

TEST_F(MvCxx, ATableOutlivesItsSessionHarmlessly) {
  std::unique_ptr<ArrayWorker<float>> table(MV_CreateTable(ArrayTableOption<float>(1 << 19)));
  ASSERT_NE(table, nullptr);
  std::vector<float> values(1 << 19, 1);
  const int started = table->GetAsync(values.data(), values.size());
  MV_ShutDown();
  table->Wait(started);
  EXPECT_EQ(taken_code(), PLEIAD_OK);
  table->Get(values.data(), values.size());
  EXPECT_EQ(taken_code(), PLEIAD_STATE);
  MV_Init();
  table->Get(values.data(), values.size());
  EXPECT_EQ(taken_code(), PLEIAD_STATE);
}

TEST_F(MvCxx, TheOlderFunctionsThatCreateTablesWork) {
  ArrayWorker<float> worker(10);
  const ArrayServer<float> server(10);
  MatrixWorkerTable<int> rows(3, 2);
  const MatrixServerTable<int> row_server(3, 2);
  EXPECT_TRUE(worker.created() && rows.created());
  std::vector<int> delta = {5, 6};
  rows.Add(2, delta.data(), 2);
  MV_Barrier();
  rows.Get(2, delta.data(), 2);
  EXPECT_EQ(delta, (std::vector<int>{5 * MV_NumWorkers(), 6 * MV_NumWorkers()}));
}

TEST(MvOptions, KeepTheirBytes) {
  AddOption option;
  EXPECT_EQ(option.learning_rate(), 0.01F);
  EXPECT_EQ(option.momentum(), 0.0F);
  EXPECT_EQ(option.rho(), 0.1F);
  EXPECT_EQ(option.lambda(), 0.1F);
  option.set_lambda(0.25F);
  option.set_worker_id(3);
  const AddOption copy(option.data(), option.size());
  EXPECT_EQ(copy.lambda(), 0.25F);
  EXPECT_EQ(copy.worker_id(), 3);
  EXPECT_EQ(option.size(), 20U);
  GetOption get;
  get.set_worker_id(4);
  EXPECT_EQ(GetOption(get.data(), get.size()).worker_id(), 4);
  EXPECT_NE(option.toString().find("lambda 0.25"), std::string::npos);
}

}  // namespace
}  // namespace multiverso
