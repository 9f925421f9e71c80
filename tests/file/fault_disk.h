// A disk that fails and loses power, under the system calls of this process. The program that links this file defines
// open, write, fsync, rename and so on itself, so every writer goes through it: ours, the standard library's, LMDB's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace pleiad::test {

/// What a loss of power takes away.
enum class Loss : std::uint8_t {
  all_unsynced,  ///< every change that was not brought to the disk: data, names and folders
  data,          ///< names are as they are now; files hold what was last brought to the disk
  some,          ///< of the changes that were not brought to the disk, a random half
};

/// Watches the calls that change something under `root`, one at a time. Calls are counted from 1.
class FaultDisk {
 public:
  /// What lies there now is on the disk.
  explicit FaultDisk(std::filesystem::path root);
  ~FaultDisk();
  FaultDisk(const FaultDisk&) = delete;
  FaultDisk& operator=(const FaultDisk&) = delete;

  /// Called before each call. What it does itself is not watched.
  void before_each(std::function<void()> look) { look_ = std::move(look); }
  /// Call number `call` from now on fails with `error` in place of being carried out.
  void fail(int call, int error);
  /// The sync number `sync` from now on has no effect, as if the code had left it out.
  void leave_out_sync(int sync);
  [[nodiscard]] int calls() const { return calls_; }
  /// The paths of the syncs so far.
  [[nodiscard]] const std::vector<std::string>& syncs() const { return syncs_; }

  /// Makes `to` what a machine would find under the root if its power went off now.
  void lose_power(const std::filesystem::path& to, Loss loss, unsigned seed) const;

  // For the system calls. Each returns false, with errno, where the call is to fail.
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
  /// `places` are the paths of what is there now.
  void restore(const std::map<std::uint64_t, std::filesystem::path>& places, std::uint64_t node,
               const std::filesystem::path& to, Loss loss, unsigned& random) const;

  std::filesystem::path root_;
  std::function<void()> look_;
  int calls_ = 0;
  int fails_at_ = 0;
  int error_ = 0;
  int left_out_ = 0;
  std::vector<std::string> syncs_;
  std::map<std::uint64_t, std::string> data_;     ///< of files, as the disk has it
  std::map<std::uint64_t, Names> folders_;        ///< as the disk has them
  mutable std::map<std::uint64_t, int> handles_;  ///< keep the numbers of removed files from being given again
};

}  // namespace pleiad::test
