// Unit tests as users of Multiverso's C++ API write them, in C++11: Boost.Test, a fixture that starts Multiverso for
// each case, and tables that are deleted after its end.
#define BOOST_TEST_DYN_LINK
#define BOOST_TEST_MODULE tables
#include <boost/test/unit_test.hpp>

#include <multiverso/multiverso.h>
#include <multiverso/table/array_table.h>
#include <multiverso/table/kv_table.h>
#include <multiverso/table/matrix.h>
#include <multiverso/util/configure.h>

#include <vector>

using namespace multiverso;

namespace {

struct Started {
  explicit Started(bool sync = false) {
    MV_SetFlag("sync", sync);
    MV_Init();
  }
  ~Started() { MV_ShutDown(false); }  // the processes of a job still shut down together
};

struct Synchronous : Started {
  Synchronous() : Started(true), array(MV_CreateTable(ArrayTableOption<int>(10))) {}
  ~Synchronous() { delete array; }
  ArrayWorker<int>* array;
};

struct WithTables : Started {
  WithTables() : array(MV_CreateTable(ArrayTableOption<float>(5))), map(MV_CreateTable(KVTableOption<int, int>())) {}
  ~WithTables() {
    delete array;
    delete map;
  }
  ArrayWorker<float>* array;
  KVWorkerTable<int, int>* map;
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(a_synchronous_get_has_the_adds_of_all_workers, Synchronous) {
  std::vector<int> delta(10), model(10);
  for (int i = 0; i < 10; ++i) delta[i] = i;
  array->Add(delta.data(), delta.size());
  array->Get(model.data(), model.size());
  for (int i = 0; i < 10; ++i) BOOST_CHECK_EQUAL(model[i], i * MV_NumWorkers());
  array->AddAsync(delta.data(), delta.size());
  array->Wait(array->GetAsync(model.data(), model.size()));
  for (int i = 0; i < 10; ++i) BOOST_CHECK_EQUAL(model[i], 2 * i * MV_NumWorkers());
}

BOOST_FIXTURE_TEST_CASE(an_array_and_a_map_of_one_session, WithTables) {
  std::vector<float> delta(5, 1.5F), model(5);
  array->Add(delta.data(), delta.size());
  map->Add(3, 4);
  MV_Barrier();
  array->Get(model.data(), model.size());
  map->Get(3);
  for (float value : model) BOOST_CHECK_EQUAL(value, 1.5F * static_cast<float>(MV_NumWorkers()));
  BOOST_CHECK_EQUAL(map->raw()[3], 4 * MV_NumWorkers());
  MV_Barrier();
}

BOOST_FIXTURE_TEST_CASE(a_session_follows_another, Started) { BOOST_CHECK_GE(MV_NumWorkers(), 1); }
