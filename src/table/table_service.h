// Serves workers of other hosts: runs their calls on this host's shards and, at the home of the clocks, decides which
// calls may start.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "table/home_clock.h"
#include "table/shard.h"

namespace pleiad {

class TableService final : public RequestHandler {
 public:
  /// Handles the requests of the context's RPC transport during its lifetime.
  explicit TableService(TableContext& context);
  ~TableService() override;
  TableService(const TableService&) = delete;
  TableService& operator=(const TableService&) = delete;

  /// Must be called before any other rank can know the table.
  void add_table(std::uint32_t id, const TableSpec& spec, std::vector<std::shared_ptr<Shard>> shards);

  /// Called after every rank has agreed to release the table.
  void remove_table(std::uint32_t id);

  bool handle(const IncomingRequest& request, FunctionRef<std::span<char>(std::size_t)> answer) override;
  void tick() override;
  [[nodiscard]] bool unanswered() const override;

 private:
  struct ServedTable {
    std::int64_t width = 0;
    std::int64_t cols = 0;  ///< 0 for an array
    std::vector<std::shared_ptr<Shard>> shards;
  };

  void on_stripes(const TableHead& head, const IncomingRequest& request, std::span<const char> rest,
                  FunctionRef<std::span<char>(std::size_t)> answer);
  void on_rows(const TableHead& head, const IncomingRequest& request, std::span<const char> rest,
               FunctionRef<std::span<char>(std::size_t)> answer);
  void on_changed(const TableHead& head, std::span<const char> rest, FunctionRef<std::span<char>(std::size_t)> answer);
  void on_whole(const TableHead& head, const IncomingRequest& request,
                FunctionRef<std::span<char>(std::size_t)> answer);
  /// The shard that a request is for. It is used without holding mutex_, because one of its locks may be held for long.
  struct RequestTarget {
    std::int64_t width = 0;
    std::int64_t cols = 0;
    std::shared_ptr<Shard> shard;
  };
  [[nodiscard]] RequestTarget target(const TableHead& head) const;

  TableContext& context_;
  mutable std::mutex mutex_;
  std::map<std::uint32_t, ServedTable> tables_;  // guarded by mutex_, like home_
  HomeClock home_;
};

}  // namespace pleiad
