// Every writer on a disk that loses power, is full, or fails, at each of its system calls. Afterwards the disk holds
// the last committed version or the one that was being committed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "file/atomic.h"
#include "file/saved_set.h"
#include "file/series.h"
#include "pleiad/data.h"
#include "pleiad/session.h"
#include "pleiad/snapshot.h"
#include "tests/file/fault_disk.h"
#include "tests/file/folder.h"
#include "train/checkpoint.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;
namespace fs = std::filesystem;

/// Writes versions 1, 2, 3, ... below a folder, and reads which version is there.
struct Writer {
  std::string name;
  std::function<void(const fs::path& root, int version)> commit;
  std::function<int(const fs::path& root)> load;  ///< returns 0 if there is no version; throws if it is damaged
};

void commit_set(const fs::path& folder, int version) {
  Manifest manifest{.kind = "snapshot", .metadata = {{"version", std::to_string(version)}}, .parts = {}};
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<float> values(6, static_cast<float>(version));
    const std::vector<PieceToWrite> pieces = {
        {"w", element_type(DType::float32), {4, 3}, {{2 * rank, 0}, {2, 3}}, bytes_of(values)}};
    manifest.parts.push_back(write_part(folder, "s" + std::to_string(version), rank, pieces));
  }
  manifest.commit(folder);
}

int load_set(const fs::path& folder) {
  if (!fs::exists(folder / Manifest::kFile)) return 0;
  const SavedSet set(folder);
  std::vector<float> values(12);
  set.read("w", std::as_writable_bytes(std::span(values)));
  for (const float value : values) {
    if (value != values[0]) throw std::runtime_error("values of two versions");
  }
  return static_cast<int>(values[0]);
}

SessionOptions quiet() {
  SessionOptions options;
  options.log_level = "off";
  return options;
}

void commit_snapshot(const fs::path& root, int version) {
  Session session = Session::start(quiet());
  const std::vector<float> values(50, static_cast<float>(version));
  const ArrayTable table = session.create_array(50, {.name = "w"}, values);
  Snapshots snapshots(session, root / "run", {.keep = 1, .background = false});
  snapshots.save({.step = version, .text = {}});
  session.shutdown();
}

int load_snapshot(const fs::path& root) {
  if (!fs::exists(root / "run")) return 0;
  Session session = Session::start(quiet());
  const ArrayTable table = session.create_array(50, {.name = "w"});
  Snapshots snapshots(session, root / "run");
  const auto note = snapshots.load_last();
  std::vector<float> values(50);
  table.get(values);
  session.shutdown();
  for (const float value : values) {
    if (value != values[0]) throw std::runtime_error("values of two versions");
  }
  return note ? static_cast<int>(values[0]) : 0;
}

void commit_checkpoint(const fs::path& root, int version) {
  Communicator comm(nullptr);
  Tensor tensor(DType::float32, Shape({2, 3}));
  std::fill_n(static_cast<float*>(tensor.raw()), 6, static_cast<float>(version));
  write_checkpoint(root / "state", {{.name = "w", .tensor = tensor}}, {{"version", std::to_string(version)}}, comm);
}

int load_checkpoint(const fs::path& root) {
  if (!fs::exists(root / "state" / Manifest::kFile)) return 0;
  const Checkpoint checkpoint(root / "state");
  const Tensor tensor = checkpoint.read({.name = "w", .tensor = Tensor(DType::float32, Shape({2, 3}))});
  const int version = std::stoi(checkpoint.at("version"));
  for (int i = 0; i < 6; ++i) {
    if (static_cast<float*>(tensor.raw())[i] != static_cast<float>(version)) throw std::runtime_error("mixed");
  }
  return version;
}

Writer store_writer(const std::string& kind, FieldType type, std::vector<std::int64_t> shape, bool label) {
  return {.name = kind,
          .commit =
              [=](const fs::path& root, int version) {
                const Field field{.name = "data", .type = type, .shape = shape};
                const auto writer =
                    create_store({.kind = kind, .paths = {root / "store"}, .data = field, .label = label});
                std::vector<std::byte> record(field.bytes());
                for (std::int64_t i = 0; i < field.count(); ++i) {
                  if (type == FieldType::uint8) {
                    record[static_cast<std::size_t>(i)] = static_cast<std::byte>(version);
                  } else {
                    reinterpret_cast<float*>(record.data())[i] = static_cast<float>(version);
                  }
                }
                for (int i = 0; i < 3; ++i) writer->write(record, version);
                writer->commit();
              },
          .load =
              [=](const fs::path& root) {
                if (!fs::exists(root / "store")) return 0;
                const auto store = open_store({.kind = kind, .paths = {root / "store"}, .label = label});
                if (store->size() != 3) throw std::runtime_error("not all records");
                const std::vector<std::int64_t> records = {0, 1, 2};
                std::vector<std::byte> all(store->fields()[0].bytes() * 3);
                store->read(0, records, all);
                if (store->fields()[0].type == FieldType::uint8) return static_cast<int>(all.back());
                return static_cast<int>(reinterpret_cast<const float*>(all.data())[all.size() / sizeof(float) - 1]);
              }};
}

std::vector<Writer> writers() {
  std::vector<Writer> all = {
      {.name = "file_in_new_folder",  // as SINGA's checkpoints are written
       .commit =
           [](const fs::path& root, int version) {
             make_folder(root / "workspace" / "checkpoint");
             const std::string text(100, static_cast<char>('0' + version));
             write_whole_file(root / "workspace" / "checkpoint" / "step-worker0", std::as_bytes(std::span(text)));
           },
       .load =
           [](const fs::path& root) {
             const fs::path path = root / "workspace" / "checkpoint" / "step-worker0";
             if (!fs::exists(path)) return 0;
             const std::string text = slurp(path);
             if (text != std::string(100, text.empty() ? ' ' : text[0])) throw std::runtime_error("damaged");
             return text[0] - '0';
           }},
      {.name = "saved_set", .commit = commit_set, .load = load_set},
      {.name = "snapshots", .commit = commit_snapshot, .load = load_snapshot},
      {.name = "checkpoint", .commit = commit_checkpoint, .load = load_checkpoint},
  };
  all.push_back(store_writer("cifar10", FieldType::uint8, {3, 32, 32}, true));
  all.push_back(store_writer("cifar10_python", FieldType::uint8, {3, 32, 32}, true));
  all.push_back(store_writer("csv", FieldType::float32, {4}, true));
  all.push_back(store_writer("hdf5", FieldType::float32, {4}, true));
  all.push_back(store_writer("idx", FieldType::uint8, {1, 2, 2}, false));
  all.push_back(store_writer("images", FieldType::uint8, {1, 2, 2}, true));
  all.push_back(store_writer("kvfile", FieldType::uint8, {1, 2, 2}, true));
  all.push_back(store_writer("libsvm", FieldType::float32, {4}, true));
  all.push_back(store_writer("lmdb", FieldType::uint8, {1, 2, 2}, true));
  all.push_back(store_writer("textfile", FieldType::float32, {4}, true));
  return all;
}

/// Returns the versions that a loss of power at this moment may leave, for each kind of loss; "damaged: ..." for one
/// that cannot be read.
std::set<std::string> left_by_power_loss(const Writer& writer, const FaultDisk& disk, const fs::path& crashed) {
  std::set<std::string> found;
  const auto look = [&](Loss loss, unsigned seed) {
    disk.lose_power(crashed, loss, seed);
    try {
      found.insert(std::to_string(writer.load(crashed)));
    } catch (const std::exception& error) {
      found.insert(std::string("damaged: ") + error.what());
    }
  };
  look(Loss::all_unsynced, 0);
  look(Loss::data, 0);
  for (unsigned seed = 1; seed <= 3; ++seed) look(Loss::some, seed);
  return found;
}

/// Commits `version`. Returns a description of the first loss of power that leaves neither `version` nor the previous
/// one, or an empty string.
std::string first_violation(const Writer& writer, FaultDisk& disk, const fs::path& root, int version) {
  const Folder crashed;
  std::string violation;
  const auto check = [&](const std::set<int>& allowed, const std::string& when) {
    for (const std::string& found : left_by_power_loss(writer, disk, crashed / "root")) {
      const bool right = std::ranges::any_of(allowed, [&](int one) { return std::to_string(one) == found; });
      if (!right && violation.empty()) violation = when + " it left: " + found;
    }
  };
  const int before = disk.calls();
  disk.before_each([&] {
    if (violation.empty())
      check({version - 1, version}, "before call " + std::to_string(disk.calls() - before) + " of its writer");
  });
  writer.commit(root, version);
  disk.before_each({});
  if (violation.empty()) check({version}, "after the commit");
  return violation;
}

class DiskFaults : public testing::TestWithParam<Writer> {};

TEST_P(DiskFaults, ALossOfPowerLeavesTheLastCommitOrTheNext) {
  const Folder folder;
  FaultDisk disk(folder.path());
  for (int version = 1; version <= 3; ++version) {
    EXPECT_EQ(first_violation(GetParam(), disk, folder.path(), version), "") << "version " << version;
  }
  EXPECT_GT(disk.calls(), 0);
}

TEST_P(DiskFaults, AFailingCallLeavesTheLastCommitOrTheNext) {
  const Writer& writer = GetParam();
  for (const int error : {ENOSPC, EIO}) {
    bool reached = true;
    for (int call = 1; reached; ++call) {
      const Folder folder;
      const Folder crashed;
      FaultDisk disk(folder.path());
      writer.commit(folder.path(), 1);
      const int before = disk.calls();
      disk.fail(call, error);
      bool committed = false;
      try {
        writer.commit(folder.path(), 2);
        committed = true;
      } catch (const FileError&) {
      }
      reached = disk.calls() - before >= call;
      const std::string what = std::string(std::strerror(error)) + " at call " + std::to_string(call);
      const int found = writer.load(folder.path());
      EXPECT_TRUE(found == 2 || (found == 1 && !committed)) << what << ": version " << found;
      for (const std::string& left : left_by_power_loss(writer, disk, crashed / "root")) {
        EXPECT_TRUE(left == "2" || (left == "1" && !committed)) << what << ", then a loss of power: " << left;
      }
      disk.fail(-1, 0);
      writer.commit(folder.path(), 3);
      EXPECT_EQ(writer.load(folder.path()), 3) << what;
    }
  }
}

// A commit that failed or was killed leaves folders and files that no sync has reached. The next one may find them.
TEST_P(DiskFaults, ACommitThatIsRepeatedAfterAFailureIsDurable) {
  const Writer& writer = GetParam();
  for (const int version : {1, 2}) {
    bool reached = true;
    for (int call = 1; reached; ++call) {
      const Folder folder;
      FaultDisk disk(folder.path());
      if (version == 2) writer.commit(folder.path(), 1);
      const int before = disk.calls();
      disk.fail(call, EIO);
      try {
        writer.commit(folder.path(), version);
      } catch (const FileError&) {
      }
      reached = disk.calls() - before >= call;
      disk.fail(-1, 0);
      EXPECT_EQ(first_violation(writer, disk, folder.path(), version), "")
          << "version " << version << " after a failure at call " << call;
    }
  }
}

// Omits each sync of a commit in turn. The check must notice, unless another sync has the same effect.
TEST_P(DiskFaults, ASyncThatIsLeftOutIsNoticed) {
  const Writer& writer = GetParam();
  int noticed = 0;
  int syncs = 0;
  for (int sync = 1; sync == 1 || sync <= syncs; ++sync) {
    const Folder folder;
    FaultDisk disk(folder.path());
    writer.commit(folder.path(), 1);
    const std::size_t before = disk.syncs().size();
    disk.leave_out_sync(sync);
    const std::string violation = first_violation(writer, disk, folder.path(), 2);
    syncs = static_cast<int>(disk.syncs().size() - before);
    const std::string path = disk.syncs()[before + static_cast<std::size_t>(sync) - 1];
    if (!violation.empty()) {
      ++noticed;
    } else {
      std::printf("another sync makes this one redundant: %s\n", path.c_str());
    }
  }
  EXPECT_GE(noticed, std::min(syncs, 2)) << "of " << syncs;
}

INSTANTIATE_TEST_SUITE_P(, DiskFaults, testing::ValuesIn(writers()),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
