// A program written for Multiverso's C++ API, in C++11.
#include <multiverso/multiverso.h>
#include <multiverso/table/array_table.h>
#include <multiverso/table/matrix_table.h>
#include <multiverso/updater/updater.h>
#include <multiverso/util/configure.h>
#include <multiverso/util/log.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

using namespace multiverso;

namespace {

template <typename T>
void test_array(int size) {
  ArrayWorker<T>* table = MV_CreateTable(ArrayTableOption<T>(size));
  CHECK_NOTNULL(table);
  std::vector<T> delta(size), values(size), later(size);
  for (int i = 0; i < size; ++i) delta[i] = static_cast<T>(i);
  for (int round = 1; round <= 10; ++round) {
    table->Add(delta.data(), size);
    const int add = table->AddAsync(delta.data(), size);
    table->Wait(add);
    MV_Barrier();
    table->Get(values.data(), size);
    table->Wait(table->GetAsync(later.data(), size));
    for (int i = 0; i < size; ++i) CHECK(values[i] == 2 * round * MV_NumWorkers() * delta[i] && later[i] == values[i]);
    MV_Barrier();
  }
  delete table;
}

template <typename T>
void test_matrix() {
  const int num_row = 11, num_col = 10, size = num_row * num_col;
  MatrixTableOption<T> option;
  option.num_row = num_row;
  option.num_col = num_col;
  MatrixWorkerTable<T>* table = MV_CreateTable(option);
  CHECK_NOTNULL(table);
  std::vector<integer_t> ids = {0, 1, 5, 10};
  std::vector<T> delta(size), values(size, T(-1));
  for (int i = 0; i < size; ++i) delta[i] = static_cast<T>(i);
  std::vector<T*> delta_rows, value_rows;
  for (std::size_t k = 0; k < ids.size(); ++k) {
    delta_rows.push_back(&delta[ids[k] * num_col]);
    value_rows.push_back(&values[ids[k] * num_col]);
  }
  const int workers = MV_NumWorkers();
  for (int round = 1; round <= 10; ++round) {
    table->Add(delta.data(), size);
    table->Add(ids, delta_rows, num_col);
    table->Wait(table->AddAsync(ids, delta_rows, num_col));
    table->Add(5, &delta[5 * num_col], num_col);
    MV_Barrier();
    const auto expected = [&](int i) {
      const int row = i / num_col;
      const int times = row == 5 ? 4 : row == 0 || row == 1 || row == 10 ? 3 : 1;
      return static_cast<T>(times * round * workers * delta[i]);
    };
    table->Get(ids, value_rows, num_col);
    for (const integer_t row : ids) {
      for (int c = 0; c < num_col; ++c) CHECK(values[row * num_col + c] == expected(row * num_col + c));
    }
    std::fill(values.begin(), values.end(), T(-1));
    table->Wait(table->GetAsync(ids, value_rows, num_col));
    for (const integer_t row : ids) {
      for (int c = 0; c < num_col; ++c) CHECK(values[row * num_col + c] == expected(row * num_col + c));
    }
    std::vector<T> packed(4 * num_col), row(num_col);
    table->Get(packed.data(), packed.size(), ids.data(), 4);
    table->Get(5, row.data(), num_col);
    for (int c = 0; c < num_col; ++c)
      CHECK(packed[2 * num_col + c] == expected(5 * num_col + c) && row[c] == packed[2 * num_col + c]);
    table->Get(values.data(), size);
    for (int i = 0; i < size; ++i) CHECK(values[i] == expected(i));
    MV_Barrier();
  }
  delete table;
}

// If the updater has options, an add may override them.
void test_options() {
  MV_SetFlag("updater_type", std::string("momentum_sgd"));
  ArrayWorker<double>* table = MV_CreateTable(ArrayTableOption<double>(3));
  CHECK_NOTNULL(table);
  AddOption option;
  option.set_momentum(0.5F);
  std::vector<double> delta = {4, 8, 16}, values(3);
  if (MV_WorkerId() == 0) table->Add(delta.data(), 3, &option);
  MV_Barrier();
  table->Get(values.data(), 3);
  for (int i = 0; i < 3; ++i) CHECK(values[i] == -0.5 * delta[i]);
  MV_Barrier();
  MV_SetFlag("updater_type", std::string("default"));
  delete table;
}

void test_allreduce() {
  std::vector<float> floats(1000, 1.0F);
  std::vector<double> doubles(1000, 0.5);
  int number = MV_Rank() + 1;
  MV_Aggregate(floats.data(), 1000);
  MV_Aggregate(doubles.data(), 1000);
  MV_Aggregate(&number, 1);
  for (int i = 0; i < 1000; ++i) CHECK(floats[i] == MV_Size() && doubles[i] == 0.5 * MV_Size());
  CHECK(number == MV_Size() * (MV_Size() + 1) / 2);
}

}  // namespace

int main(int argc, char* argv[]) {
  Log::ResetLogLevel(LogLevel::Error);
  const bool sync = argc > 1 && std::string(argv[1]) == "sync";
  SetCMDFlag("sync", sync);
  MV_Init(&argc, argv);
  Log::Info("rank %d of %d\n", MV_Rank(), MV_Size());
  CHECK(MV_WorkerIdToRank(MV_WorkerId()) == MV_Rank() && MV_ServerIdToRank(MV_ServerId()) == MV_Rank());
  CHECK(MV_NumServers() == MV_Size());
  test_array<float>(500);
  test_array<double>(1);
  test_array<int>(500);
  test_matrix<float>();
  test_matrix<double>();
  test_matrix<int>();
  if (!sync) test_options();
  test_allreduce();
  const int rank = MV_Rank(), size = MV_Size();
  MV_ShutDown();

  // Starts again for model averaging: no servers, no tables.
  MV_SetFlag("ma", true);
  MV_Init();
  test_allreduce();
  CHECK(MV_NumServers() == 0 && MV_CreateTable(ArrayTableOption<float>(5)) == nullptr);
  MV_ShutDown();
  std::printf("mv_cxx: rank %d of %d is right\n", rank, size);
  return 0;
}
