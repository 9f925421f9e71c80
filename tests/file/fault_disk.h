// A simulated disk that fails and loses power, below the system calls of this process. The program that links this file
// defines open, write, fsync, rename and so on, so every writer uses them: ours, the standard library's and LMDB's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace pleiad::test {

/// The changes that a loss of power discards.
enum class Loss : std::uint8_t {
  all_unsynced,  ///< all unsynced changes of data, names and folders
  data,          ///< unsynced data only: names are as they are now, files hold their last synced data
  some,          ///< a random half of the unsynced changes
};

/// Watches the calls that change something under `root`. Only one object may exist at a time. Calls are counted from 1.
class FaultDisk {
 public:
  /// The files that exist now count as synced.
  explicit FaultDisk(std::filesystem::path root);
  ~FaultDisk();
  FaultDisk(const FaultDisk&) = delete;
  FaultDisk& operator=(const FaultDisk&) = delete;

  /// Called before each call. Calls that it makes itself are not watched.
  void before_each(std::function<void()> look) { look_ = std::move(look); }
  /// Makes call number `call`, counted from now, fail with `error` without an effect.
  void fail(int call, int error);
  /// Makes sync number `sync`, counted from now, have no effect, as if the code had omitted it.
  void leave_out_sync(int sync);
  [[nodiscard]] int calls() const { return calls_; }
  /// The paths of the syncs so far.
  [[nodiscard]] const std::vector<std::string>& syncs() const { return syncs_; }

  /// Writes to `to` the files that a machine would find under the root after a loss of power at this moment.
  void lose_power(const std::filesystem::path& to, Loss loss, unsigned seed) const;

  // For the replaced system calls. Each returns false and sets errno if the call must fail.
  bool begin();
  void sync(int file, const std::string& path);
  void sync_all();
  [[nodiscard]] bool concerns(const std::string& path) const;

 private:
  struct Entry {
    std::uint64_t node = 0;
    bool folder = false;
  };
  using Names = std::map<std::string, Entry>;

  [[nodiscard]] Names names_in(const std::filesystem::path& folder) const;
  void keep(const std::filesystem::path& path);
  /// `places` maps each file that exists now to its path.
  void restore(const std::map<std::uint64_t, std::filesystem::path>& places, std::uint64_t node,
               const std::filesystem::path& to, Loss loss, unsigned& random) const;

  std::filesystem::path root_;
  std::function<void()> look_;
  int calls_ = 0;
  int fails_at_ = 0;
  int error_ = 0;
  int left_out_ = 0;
  std::vector<std::string> syncs_;
  std::map<std::uint64_t, std::string> data_;  ///< synced content of each file
  std::map<std::uint64_t, Names> folders_;     ///< synced names in each folder
  mutable std::map<std::uint64_t, int>
      handles_;  ///< open handles, which prevent the system from reusing the node numbers of removed files
};

}  // namespace pleiad::test
