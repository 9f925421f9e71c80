// Files that change while they are read.
#include "file/mapped.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <numeric>
#include <thread>

#include "file/saved_set.h"
#include "pleiad/data.h"
#include "pleiad/error.h"
#include "tests/file/folder.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

constexpr std::size_t kSize = 1 << 20;

std::filesystem::path long_file(const Folder& folder, const std::string& name = "long") {
  std::ofstream(folder / name) << std::string(kSize, 'x');
  return folder / name;
}

std::size_t count_of_x(const MappedFile& file) {
  return static_cast<std::size_t>(std::ranges::count(file.bytes(), std::byte{'x'}));
}

TEST(MappedFile, AFileThatBecomesShorterIsAnErrorAndNotTheEndOfTheProcess) {
  const Folder folder;
  const auto path = long_file(folder);
  const MappedFile file(path);
  EXPECT_EQ(count_of_x(file), kSize);
  EXPECT_NO_THROW(check_mapped_reads());
  std::filesystem::resize_file(path, kSize / 2);
  EXPECT_EQ(count_of_x(file), kSize / 2);  // missing bytes read as zeros
  expect_error<FileError>([] { check_mapped_reads(); }, {path, "became shorter"});
  EXPECT_NO_THROW(check_mapped_reads());  // the error is reported once
}

TEST(MappedFile, OnlyTheReadingThreadGetsTheError) {
  const Folder folder;
  const auto path = long_file(folder);
  std::ofstream(folder / "other") << std::string(kSize, 'x');
  const MappedFile file(path);
  const MappedFile other(folder / "other");
  std::filesystem::resize_file(path, 10);
  std::thread([&] {
    EXPECT_LT(count_of_x(file), kSize);
    expect_error<FileError>([] { check_mapped_reads(); }, {path});
  }).join();
  EXPECT_EQ(count_of_x(other), kSize);
  EXPECT_NO_THROW(check_mapped_reads());
}

TEST(MappedFile, TheReasonComesBeforeWhatTheReaderMadeOfIt) {
  const Folder folder;
  const auto path = long_file(folder);
  const MappedFile file(path);
  std::filesystem::resize_file(path, 0);
  const auto read = [&] {
    if (file.bytes()[kSize - 1] != std::byte{'x'}) throw FileError("expected an x");
  };
  expect_error<FileError>([&] { checked_read(read); }, {path, "became shorter"});
}

TEST(MappedFile, EntriesAreUsedAgain) {
  const Folder folder;
  const auto path = long_file(folder);
  for (int i = 0; i < 100; ++i) {
    MappedFile first(path);
    MappedFile second(std::move(first));
    first = MappedFile(path);
    EXPECT_EQ(second.bytes().size() + first.bytes().size(), 2 * kSize);
  }
}

TEST(MappedFile, AnotherBusErrorGoesToTheHandlerBefore) {
  EXPECT_EXIT(
      {
        const Folder folder;
        const MappedFile file(long_file(folder));
        (void)std::raise(SIGBUS);
        std::_Exit(0);
      },
      [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; }, "");  // a sanitizer's handler exits
}

TEST(MappedFile, ATruncatedFileOfAStoreThrows) {
  const Folder folder;
  using namespace std::string_literals;
  std::ofstream(folder / "images") << "\0\0\x08\x03\0\0\0\x64\0\0\0\x1c\0\0\0\x1c"s << std::string(100 * 28 * 28, 'x');
  std::ofstream(folder / "labels") << "\0\0\x08\x01\0\0\0\x64"s << std::string(100, '\1');
  const auto store = open_store({.kind = "idx", .paths = {folder / "images", folder / "labels"}});
  std::vector<std::int64_t> all(100);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::byte> images(100 * store->fields()[0].bytes());
  store->read(0, all, images);
  std::filesystem::resize_file(folder / "images", 20);
  expect_error<FileError>([&] { store->read(0, all, images); }, {"images", "became shorter"});
}

}  // namespace
