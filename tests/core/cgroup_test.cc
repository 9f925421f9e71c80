// Memory limits of control groups, read from folders that look like /proc and /sys/fs/cgroup.
#include "core/cgroup.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

namespace pleiad {
namespace {

namespace fs = std::filesystem;

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "pleiad-cgroup-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void version2(const std::string& group) {
    write("proc/self/cgroup", "0::" + group + "\n");
    write("proc/self/mountinfo", "24 1 0:22 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
  }
  void memory2(const std::string& group, const std::string& limit, const std::string& used, const std::string& file) {
    write("sys/fs/cgroup" + group + "/memory.max", limit + "\n");
    write("sys/fs/cgroup" + group + "/memory.current", used + "\n");
    write("sys/fs/cgroup" + group + "/memory.stat", "anon 7\ninactive_file " + file + "\nactive_file 9\n");
  }

  fs::path root_;
};

TEST_F(CgroupTest, NoFilesAreNoLimit) {
  EXPECT_FALSE(cgroup_memory_left(root_));
  EXPECT_FALSE(cgroup_cores(root_));
}

TEST_F(CgroupTest, TheTightestGroupOfANestCounts) {
  version2("/slurm/job_7/step_0");
  memory2("/slurm/job_7/step_0", "max", "400", "0");
  memory2("/slurm/job_7", "1000", "600", "100");
  memory2("/slurm", "5000", "4900", "0");
  EXPECT_EQ(cgroup_memory_left(root_), 100);
  memory2("/slurm", "5000", "600", "0");
  EXPECT_EQ(cgroup_memory_left(root_), 500);  // the 100 bytes of the page cache can be reclaimed
}

TEST_F(CgroupTest, MoreUsedThanAllowedLeavesNothing) {
  version2("/a");
  memory2("/a", "1000", "1200", "0");
  EXPECT_EQ(cgroup_memory_left(root_), 0);
}

TEST_F(CgroupTest, Version1HasItsOwnNamesAndANumberForNoLimit) {
  write("proc/self/cgroup", "4:memory:/lxc/box\n3:cpu,cpuacct:/lxc/box\n0::/\n");
  write("proc/self/mountinfo",
        "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "31 24 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
  const std::string memory = "sys/fs/cgroup/memory/lxc/";
  write(memory + "memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_FALSE(cgroup_memory_left(root_));
  write(memory + "box/memory.limit_in_bytes", "3000\n");
  write(memory + "box/memory.usage_in_bytes", "1000\n");
  write(memory + "box/memory.stat", "inactive_file 1\ntotal_inactive_file 50\n");
  EXPECT_EQ(cgroup_memory_left(root_), 2050);
  write("sys/fs/cgroup/cpu,cpuacct/lxc/box/cpu.cfs_quota_us", "150000\n");
  write("sys/fs/cgroup/cpu,cpuacct/lxc/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cores(root_), 1.5);
}

TEST_F(CgroupTest, AContainersMountBeginsAtItsOwnGroup) {
  write("proc/self/cgroup", "0::/docker/abc/inner\n");
  write("proc/self/mountinfo", "24 1 0:22 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  memory2("/inner", "900", "100", "0");
  memory2("", "700", "100", "0");
  EXPECT_EQ(cgroup_memory_left(root_), 600);
  write("proc/self/cgroup", "0::/elsewhere\n");  // outside of the mount only the limit of the mount itself is visible
  EXPECT_EQ(cgroup_memory_left(root_), 600);
}

TEST_F(CgroupTest, QuotasOfProcessors) {
  version2("/a/b");
  write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
  EXPECT_EQ(cgroup_cores(root_), 2.5);
}

}  // namespace
}  // namespace pleiad
