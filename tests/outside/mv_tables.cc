// Tables, options and small helpers of Multiverso's C++ API that mv_cxx.cc does not use, in C++11.
#include <multiverso/blob.h>
#include <multiverso/dashboard.h>
#include <multiverso/message.h>
#include <multiverso/multiverso.h>
#include <multiverso/net.h>
#include <multiverso/node.h>
#include <multiverso/table/array_table.h>
#include <multiverso/table/kv_table.h>
#include <multiverso/table/matrix.h>
#include <multiverso/table/matrix_table.h>
#include <multiverso/table/sparse_matrix_table.h>
#include <multiverso/table_factory.h>
#include <multiverso/util/configure.h>
#include <multiverso/util/log.h>
#include <multiverso/util/net_util.h>
#include <multiverso/util/timer.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <unordered_set>
#include <vector>

using namespace multiverso;

namespace {

template <typename Key, typename Val>
void test_key_value() {
  KVWorkerTable<Key, Val>* table = MV_CreateTable(KVTableOption<Key, Val>());
  CHECK_NOTNULL(table);
  table->Get(Key(7));
  CHECK(table->raw()[7] == Val(0));
  MV_Barrier();
  table->Add(Key(7), Val(3));
  const std::vector<Key> keys = {1, 7, -5};
  const std::vector<Val> values = {10, -1, 4};
  table->Add(keys, values);
  MV_Barrier();
  table->Get(keys);
  const Val n = static_cast<Val>(MV_NumWorkers());
  CHECK(table->raw()[1] == 10 * n && table->raw()[7] == 2 * n && table->raw()[-5] == 4 * n);
  MV_Barrier();
  delete table;
}

template <typename Option>
void test_matrix(const Option& option) {
  auto* table = MV_CreateTable(option);
  CHECK_NOTNULL(table);
  const int rows = option.num_row, cols = option.num_col, size = rows * cols;
  std::vector<float> delta(size), all(size);
  for (int i = 0; i < size; ++i) delta[i] = static_cast<float>(i + 1);
  table->Add(delta.data(), size);
  std::vector<integer_t> ids = {0, rows - 1};
  std::vector<float*> places = {&delta[0], &delta[(rows - 1) * cols]};
  AddOption add;
  table->Add(ids, places, cols, &add);
  MV_Barrier();
  GetOption get;
  get.set_worker_id(MV_WorkerId());
  table->Get(all.data(), size, &get);
  for (int i = 0; i < size; ++i) {
    const int times = i < cols || i >= (rows - 1) * cols ? 2 : 1;
    CHECK(all[i] == delta[i] * times * MV_NumWorkers());
  }
  std::vector<float> row(cols);
  table->Get(1, row.data(), cols, &get);
  CHECK(row[0] == all[cols]);
  MV_Barrier();
  delete table;
}

// The keys and values of a call are split over the servers and put together again.
void test_partition() {
  const int size = 10;
  ArrayWorker<int>* array = table_factory::CreateTable(ArrayTableOption<int>(size));
  const int whole = -1;
  std::vector<int> values(size);
  for (int i = 0; i < size; ++i) values[i] = i;
  const std::vector<Blob> kv = {Blob(&whole, sizeof whole), Blob(values.data(), sizeof(int) * values.size())};
  std::unordered_map<int, std::vector<Blob>> parts;
  CHECK(array->Partition(kv, MsgType::Request_Add, &parts) == MV_NumServers());
  std::vector<int> again;
  for (int server = 0; server < MV_NumServers(); ++server) {
    CHECK(parts[server].size() == 2 && parts[server][0].As<int>() == -1);
    for (std::size_t i = 0; i < parts[server][1].size<int>(); ++i) again.push_back(parts[server][1].As<int>(i));
  }
  CHECK(again == values);
  delete array;

  MatrixWorkerTable<int>* matrix = MV_CreateTable(MatrixTableOption<int>(8, 2));
  const std::vector<integer_t> ids = {6, 0, 7};
  const std::vector<int> rows = {60, 61, 0, 1, 70, 71};
  parts.clear();
  matrix->Partition({Blob(ids.data(), 4 * ids.size()), Blob(rows.data(), 4 * rows.size())}, MsgType::Request_Add,
                    &parts);
  std::size_t found = 0;
  for (const auto& part : parts) {
    for (std::size_t i = 0; i < part.second[0].size<integer_t>(); ++i, ++found) {
      CHECK(part.second[1].As<int>(2 * i) == 10 * part.second[0].As<integer_t>(i));
    }
  }
  CHECK(found == ids.size());
  delete matrix;

  KVWorkerTable<int, int>* map = MV_CreateTable(KVTableOption<int, int>());
  parts.clear();
  map->Partition({Blob(ids.data(), 4 * ids.size())}, MsgType::Request_Get, &parts);
  for (const auto& part : parts) {
    for (std::size_t i = 0; i < part.second[0].size<int>(); ++i) {
      CHECK(part.second[0].As<int>(i) % MV_NumServers() == part.first);
    }
  }
  delete map;
}

void test_small_things() {
  const std::string text = "hello";
  const Blob blob(text.data(), text.size());
  Blob copy = blob, apart;
  apart.CopyFrom(blob);
  copy.As<char>() = 'j';
  CHECK(blob[0] == 'j' && apart[0] == 'h' && apart.size() == 5 && Blob().size() == 0);

  Message message;
  message.set_type(MsgType::Request_Get);
  message.set_src(1);
  message.set_dst(2);
  message.set_table_id(3);
  message.set_msg_id(4);
  message.Push(blob);
  const MessagePtr reply(message.CreateReplyMessage());
  CHECK(message.size() == 1 && reply->size() == 0 && reply->type() == MsgType::Reply_Get && reply->src() == 2);
  CHECK(reply->dst() == 1 && reply->table_id() == 3 && reply->msg_id() == 4);

  CHECK(node::is_worker(Role::ALL) && !node::is_worker(Role::SERVER) && !node::is_server(Role::NONE));

  const Timer timer;
  CHECK(timer.elapse() >= 0);
  static int steps = 0;  // counts over both sessions
  for (int i = 0; i < 3; ++i, ++steps) {
    MONITOR_BEGIN(step);
    MONITOR_END(step);
  }
  CHECK(Dashboard::Watch("step").find("count " + std::to_string(steps)) != std::string::npos &&
        Dashboard::Watch("none").empty());

  std::unordered_set<std::string> addresses;
  net::GetLocalIPAddress(&addresses);
  CHECK(addresses.count("127.0.0.1") == 1);
  CHECK(NetInterface::Get()->rank() == MV_Rank() && NetInterface::Get()->size() == MV_Size());
  double sum = 1;
  net::Allreduce(&sum, 1);
  CHECK(sum == MV_Size());
}

}  // namespace

int main(int argc, char* argv[]) {
  for (const bool sync : {false, true}) {
    SetCMDFlag("sync", sync);
    MV_Init(&argc, argv);
    test_key_value<int, int>();
    test_key_value<std::int64_t, float>();
    test_key_value<long, long>();
    MatrixOption<float> option;
    option.num_row = 5;
    option.num_col = 3;
    option.is_sparse = sync;
    test_matrix(option);
    test_matrix(SparseMatrixOption<float>(4, 2));
    test_partition();
    test_small_things();
    MV_ShutDown(false);
  }
  std::puts("fine");
}
