#include "file/atomic.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>

#include "file/checksum.h"
#include "tests/file/folder.h"

namespace {

using namespace pleiad;
using namespace pleiad::test;

std::span<const std::byte> bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

TEST(Checksum, IsCastagnolis) {
  EXPECT_EQ(crc32c(bytes("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c({}), 0U);
  // Known values of RFC 3720, B.4: 32 bytes of zeros, 32 bytes of ones.
  EXPECT_EQ(crc32c(bytes_of(std::vector<std::uint8_t>(32, 0))), 0x8A9136AAU);
  EXPECT_EQ(crc32c(bytes_of(std::vector<std::uint8_t>(32, 0xFF))), 0x62A8AB43U);
}

TEST(Checksum, OfPiecesAndByTableIsTheSame) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 31 + i / 7);
  for (std::size_t cut = 0; cut <= 40; ++cut) {
    const auto whole = crc32c(bytes(text));
    EXPECT_EQ(crc32c(bytes(std::string_view(text).substr(cut)), crc32c(bytes(std::string_view(text).substr(0, cut)))),
              whole);
    EXPECT_EQ(crc32c_by_table(bytes(std::string_view(text).substr(cut))),
              crc32c(bytes(std::string_view(text).substr(cut))));
  }
}

TEST(AtomicFile, ReplacesAFileOnlyAtItsCommit) {
  const Folder folder;
  spit(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("new ");
    file.write("words");
    EXPECT_EQ(slurp(folder / "a"), "old");
    EXPECT_EQ(folder.names().size(), 2U);
    file.commit();
    EXPECT_EQ(file.bytes(), 9U);
    EXPECT_EQ(file.checksum(), crc32c(bytes("new words")));
    EXPECT_THROW(file.write("more"), StateError);
    EXPECT_THROW(file.commit(), StateError);
  }
  EXPECT_EQ(slurp(folder / "a"), "new words");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

TEST(AtomicFile, PastTheCacheItIsTheSameFile) {
  std::string text(5'000'011, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>((i * 2654435761U) >> 11);
  const std::size_t block = std::size_t{1} << 20;
  // A file system on a disk, and one in memory, which may not support direct writes.
  for (const std::filesystem::path& place : {std::filesystem::current_path(), std::filesystem::path("/dev/shm")}) {
    const std::filesystem::path path = place / ("past-the-cache-" + std::to_string(::getpid()));
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{9}, block - 1, block, block + 1, 3 * block, text.size()}) {
      const std::string_view whole = std::string_view(text).substr(0, size);
      AtomicFile file(path, Caching::pass);
      for (std::size_t at = 0, n = 1; at < whole.size(); at += n, n = n * 3 + 1) file.write(whole.substr(at, n));
      file.commit();
      EXPECT_EQ(file.bytes(), size);
      EXPECT_EQ(file.checksum(), crc32c(bytes(whole)));
      EXPECT_TRUE(slurp(path) == whole) << place << " " << size;
    }
    std::filesystem::remove(path);
  }
}

TEST(AtomicFile, LeavesNothingBehindWithoutACommit) {
  const Folder folder;
  {
    AtomicFile(folder / "a").write("half");
  }
  EXPECT_TRUE(folder.names().empty());
}

TEST(AtomicFile, FollowsALinkAndRespectsTheUmask) {
  const Folder folder;
  spit(folder / "target", "old");
  std::filesystem::create_symlink("target", folder / "link");
  const mode_t before = ::umask(027);
  write_whole_file(folder / "link", bytes("new"));
  ::umask(before);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(slurp(folder / "target"), "new");
  EXPECT_EQ(static_cast<int>(std::filesystem::status(folder / "target").permissions()), 0640);
}

TEST(AtomicFile, NamesTheFileAndTheReason) {
  const Folder folder;
  expect_error<FileError>([&] { AtomicFile(folder / "none/a"); }, {(folder / "none/a").string(), "No such file"});
  std::filesystem::create_directory(folder / "b");
  expect_error<FileError>([&] { write_whole_file(folder / "b", bytes("x")); }, {(folder / "b").string(), "directory"});
  EXPECT_EQ(folder.names(), std::vector<std::string>{"b"});
  EXPECT_THROW(AtomicFile(folder / ""), InvalidArgument);
}

// A limit on the size of a file has the effect of a full disk on write(): first a short count, then an error.
TEST(AtomicFile, KeepsTheOldFileWhenTheNewOneDoesNotFit) {
  const Folder folder;
  spit(folder / "a", "old");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  expect_error<FileError>([&] { write_whole_file(folder / "a", bytes_of(std::vector<char>(150'000))); },
                          {(folder / "a").string(), "File too large", "after 100 KB", "is unchanged"});
  small.rlim_cur = 1'500'000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto past_cache = [&] {
    AtomicFile file(folder / "a", Caching::pass);
    file.write(bytes_of(std::vector<char>(3'000'000)));
    file.commit();
  };
  expect_error<FileError>(past_cache, {(folder / "a").string(), "File too large", "after 1.5 MB", "is unchanged"});
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(slurp(folder / "a"), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"a"});
}

// Runs in a child process, which mounts a small file system of its own if it may.
TEST(AtomicFile, KeepsTheOldFileOnAFullDisk) {
  constexpr int kNotAllowed = 77;
  const Folder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
      ::_exit(kNotAllowed);
    }
    const auto file = folder / "a";
    write_whole_file(file, bytes("old"));
    std::string message;
    try {
      write_whole_file(file, bytes_of(std::vector<char>(2'000'000)));
    } catch (const FileError& error) {
      message = error.what();
    }
    const bool told = message.find("No space left") != std::string::npos && message.find(file) != std::string::npos;
    ::_exit(told && slurp(file) == "old" && folder.names().size() == 1 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNotAllowed) GTEST_SKIP() << "may not mount a file system; the case above stands for it";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
