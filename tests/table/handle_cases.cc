// Operations that are started and not waited for, and the lifetimes of handles, buffers and tables.
#include <sys/mman.h>

#include <memory>
#include <optional>

#include "tests/table/tables.h"

namespace pleiad {

using namespace conformance;

namespace {

// Another thread carries out gets of more than 1 MB.
constexpr std::int64_t kLarge = 400'000;

SessionOptions solo() {
  SessionOptions options;
  options.engine = "solo";
  options.log_level = "error";
  return options;
}

}  // namespace

CASE(Handle, CanBeWaitedForTestedAndDropped) {
  for (const std::int64_t size : {std::int64_t{10}, kLarge}) {
    const auto count = static_cast<std::size_t>(size);
    const ArrayTable table = session.create_array(size);
    const std::vector<float> ones(count, 1);
    std::vector<float> out(count);
    Pending added = table.add_async(ones);
    added.wait();
    added.wait();  // a second wait has no effect
    EXPECT_TRUE(added.done());
    session.barrier();
    Pending got = table.get_async(out);
    while (!got.done()) {
    }
    got.wait();
    EXPECT_EQ(out, std::vector<float>(count, static_cast<float>(session.size())));
    session.barrier();
    (void)table.add_async(ones);
    Pending none;
    EXPECT_TRUE(none.done());
    none.wait();
    session.barrier();
    EXPECT_EQ(all_of<float>(table), std::vector<float>(count, static_cast<float>(2 * session.size())));
    session.barrier();
  }
}

CASE(Handle, SeveralAreOutstandingAtOnce) {
  const ArrayTable array = session.create_array(kLarge);
  const MatrixTable matrix = session.create_matrix(2000, 200);
  std::vector<RowId> ids(1800);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<RowId>(1999 - i);
  array.add(std::vector<float>(kLarge, 1));
  matrix.add(std::vector<float>(400'000, 2));
  session.barrier();
  std::vector<std::vector<float>> arrays(4, std::vector<float>(kLarge));
  std::vector<std::vector<float>> matrices(4, std::vector<float>(360'000));
  std::vector<Pending> pending;
  for (std::size_t i = 0; i < 4; ++i) {
    pending.push_back(array.get_async(arrays[i]));
    pending.push_back(matrix.get_rows_async(ids, matrices[i]));
  }
  for (std::size_t i = pending.size(); i-- > 0;)
    pending[i].wait();  // the operations are waited for in another order than they were started
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(arrays[i], std::vector<float>(kLarge, static_cast<float>(session.size())));
    EXPECT_EQ(matrices[i], std::vector<float>(360'000, static_cast<float>(2 * session.size())));
  }
}

CASE(Handle, TheIdsOfAStartedGetAreFreeAgainOnReturn) {
  const MatrixTable matrix = session.create_matrix(2000, 200, {}, [] {
    std::vector<float> rows(400'000);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i / 200);
    return rows;
  }());
  auto ids = std::make_unique<std::vector<RowId>>(1800, 7);
  std::vector<float> out(360'000);
  Pending pending = matrix.get_rows_async(*ids, out);
  std::ranges::fill(*ids, 9);
  ids.reset();
  pending.wait();
  EXPECT_EQ(out, std::vector<float>(360'000, 7.0F));
}

CASE(Handle, TheDeltaOfAStartedAddIsFreeAgainOnReturn) {
  for (const char* clock : {"async", "sync"}) {
    TableOptions options;
    options.clock = clock;
    const ArrayTable table = session.create_array(1000, options);
    for (int step = 0; step < 20; ++step) {
      std::vector<float> delta(1000, 1);
      (void)table.add_async(delta);
      std::ranges::fill(delta, 1e9F);
    }
    session.barrier();
    EXPECT_EQ(all_of<float>(table), std::vector<float>(1000, static_cast<float>(20 * session.size()))) << clock;
    session.barrier();
  }
}

CASE(Handle, ADroppedGetLeavesItsBufferAlone) {
  const ArrayTable table = session.create_array(kLarge);
  constexpr std::size_t kBytes = kLarge * sizeof(float);
  for (int i = 0; i < 20; ++i) {
    // The memory is unmapped as soon as the handle is destroyed, so a later write to it would end the process.
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    {
      const Pending dropped = table.get_async(View(memory, kLarge, DType::float32));
    }
    ASSERT_EQ(mprotect(memory, kBytes, PROT_NONE), 0);
    session.barrier();
    munmap(memory, kBytes);
  }
}

CASE(Handle, AnAssignedHandleDropsWhatItHeld) {
  const ArrayTable table = session.create_array(kLarge);
  constexpr std::size_t kBytes = kLarge * sizeof(float);
  std::vector<float> kept(kLarge);
  for (int i = 0; i < 20; ++i) {
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    Pending pending = table.get_async(View(memory, kLarge, DType::float32));
    Pending other = table.get_async(kept);
    pending = std::move(other);
    ASSERT_EQ(mprotect(memory, kBytes, PROT_NONE), 0);
    pending.wait();
    munmap(memory, kBytes);
  }
}

CASE(Handle, OutlivesItsSession) {
  const auto outlive = [](bool shut_down) {
    std::vector<float> out(kLarge, 5);
    Pending pending;
    std::optional<ArrayTable> table;
    {
      Session inner = Session::start(solo());
      table = inner.create_array(kLarge, {.name = "gone"});
      table->add(std::vector<float>(kLarge, 1));
      pending = table->get_async(out);
      if (shut_down) inner.shutdown();
    }
    EXPECT_EQ(table->name(), "gone");
    EXPECT_EQ(table->size(), kLarge);
    EXPECT_EQ(table->stats().adds, 1U);
    message_of<StateError>([&] { table->get(out); });
    if (shut_down) {
      pending.wait();
      EXPECT_EQ(out[kLarge - 1], 1);
    }
  };
  outlive(true);
  outlive(false);
}

CASE(Handle, AStartedGetOutlivesTheTableAndTheSession) {
  std::vector<float> out(kLarge, 5);
  Pending pending;
  {
    Session inner = Session::start(solo());
    pending = inner.create_array(kLarge).get_async(out);
    inner.shutdown();
  }
  pending.wait();
  EXPECT_EQ(out, std::vector<float>(kLarge));
  {
    Session inner = Session::start(solo());
    (void)inner.create_array(kLarge).get_async(out);
    // The session ends without a shutdown while the get is in progress.
  }
}

CASE(Handle, ATableLivesAsLongAsAHandleOfIt) {
  std::optional<ArrayTable> kept;
  {
    const ArrayTable first = session.create_array(3, {.name = "kept"});
    kept = first;
    (void)session.create_array(3, {.name = "dropped"});
    first.add(std::vector<float>{1, 2, 3});
  }
  session.barrier();
  const auto n = static_cast<float>(session.size());
  EXPECT_EQ(all_of<float>(*kept), (std::vector<float>{n, 2 * n, 3 * n}));
  EXPECT_EQ(kept->id(), 0U);
  EXPECT_TRUE(mentions(session.stats(), {"kept"}));
  EXPECT_EQ(session.stats().find("dropped"), std::string::npos) << session.stats();
}

CASE(Handle, NothingWorksAfterShutdown) {
  Session inner = Session::start(solo());
  TableOptions options{.name = "weights"};
  const ArrayTable array = inner.create_array(3, options);
  options.clock = "sync";
  const MatrixTable matrix = inner.create_matrix(3, 1, options);
  inner.shutdown();
  std::vector<float> values(3);
  for (const std::string& text :
       {message_of<StateError>([&] { array.get(values); }), message_of<StateError>([&] { array.add(values); }),
        message_of<StateError>([&] { (void)array.get_async(values); }),
        message_of<StateError>([&] { (void)array.add_async(values); }),
        message_of<StateError>([&] { matrix.get(values); }),
        message_of<StateError>([&] { matrix.add_row(0, std::vector<float>{1}); }),
        message_of<StateError>([&] { (void)inner.create_array(3); }), message_of<StateError>([&] { inner.barrier(); }),
        message_of<StateError>([&] { inner.all_reduce(values); }),
        message_of<StateError>([&] { inner.send(0, 1, values); }), message_of<StateError>([&] { inner.shutdown(); })}) {
    EXPECT_TRUE(mentions(text, {"shut down"}));
  }
}

}  // namespace pleiad
