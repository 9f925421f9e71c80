// A table as one rank sees it: arguments checked, clock obeyed, stripes locked, rule applied.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pleiad/table.h"
#include "table/clock.h"
#include "table/context.h"
#include "table/storage.h"

namespace pleiad {

/// What all ranks must agree on.
struct TableSpec {
  bool matrix = false;
  std::int64_t rows = 1;  ///< of an array: 1
  std::int64_t cols = 0;  ///< of an array: its size
  TableOptions options;

  /// Throws an InvalidArgument for what no table can be.
  void check() const;
  /// "matrix "w" of 10 x 5 float32, async, apply each, rule sgd"
  [[nodiscard]] std::string words(std::uint32_t id) const;
  [[nodiscard]] std::string name(std::uint32_t id) const;
};

/// All of a table, or some of its rows.
struct Selection {
  bool all = true;
  std::span<const RowId> ids;
};

class Table {
 public:
  /// Collective, after the ranks have agreed on the spec.
  Table(std::shared_ptr<TableContext> context, std::uint32_t id, TableSpec spec, ConstView initial);

  [[nodiscard]] const TableSpec& spec() const { return spec_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint32_t id() const { return id_; }
  [[nodiscard]] const TableContext& context() const { return *context_; }
  [[nodiscard]] TableStats stats() const;

  void get(Selection selection, View out);
  void add(Selection selection, ConstView delta, const AddOptions& options);
  void add_get(ConstView delta, View out, const AddOptions& options);
  void exchange(View values, View last, const AddOptions& options);
  void add_parts(std::span<const ArrayPart> delta, View out, const AddOptions& options);
  void step(std::span<const ArrayPart> delta, const AddOptions& options);
  void set(ConstView values, int root);
  [[nodiscard]] View map();
  [[nodiscard]] Pending get_async(Selection selection, View out);
  [[nodiscard]] Pending add_async(Selection selection, ConstView delta, const AddOptions& options);

 private:
  class ClockedCall;

  void check(std::string_view call, Selection selection, ConstView numbers) const;
  void check_add(std::string_view call, Selection selection, ConstView delta) const;
  void check_finite(std::string_view call, ConstView delta) const;
  void check_parts(std::string_view call, std::span<const ArrayPart> parts) const;
  [[nodiscard]] std::string where(std::string_view call) const;
  [[nodiscard]] std::int64_t bytes_of(Selection selection) const;

  [[nodiscard]] bool nothing_to_wait_for(Call call) const;
  void submit(std::string_view call, const std::shared_ptr<Operation>& operation);
  void check_whole() const;
  /// One call, counted, when the clock lets it.
  void carry_out(Call call, std::int64_t bytes, FunctionRef<void()> work);
  template <class Delta, class Take>
  void run_both(std::string_view name, const Rates& rates, Delta&& delta_of, Take&& take, bool gets = true);
  [[nodiscard]] std::unique_ptr<double[]> room_for_stripe() const;
  // One whole call, arguments checked. `guard` runs the write to the caller's buffer, or not if that is gone.
  void run_get(Selection selection, FunctionRef<void(FunctionRef<void()>)> guard, void* out);
  void run_add(Selection selection, const void* delta, const Rates& rates);

  void copy_out(Selection selection, char* out);
  void change(Selection selection, const char* delta, const Rates& rates);
  void change_all(const char* delta, const Rates& rates);
  void change_rows(std::span<const RowId> ids, const char* delta, const Rates& rates);
  void change_distinct_rows(std::span<const RowId> ids, const char* delta, const Rates& rates);
  void change_units(Stripe& stripe, std::int64_t first, std::int64_t end, const char* delta, const Rates& rates);

  // Rounds: what the workers have added waits in sums until the round is complete.
  void put_off(Stripe& stripe, std::int64_t first, std::int64_t end, const char* delta, const Rates& rates);
  void settle(std::int64_t stripe);

  void apply(int worker, std::int64_t first, std::int64_t end, const char* delta, const Rates& rates);
  /// Calls work(stripe index) with each stripe's lock held, from one that differs from worker to worker.
  template <class F>
  void each_stripe(Point point, F&& work);
  template <class F>
  void with_stripe(Point point, std::int64_t index, F&& work);

  std::shared_ptr<TableContext> context_;
  Engine& engine_;
  std::uint32_t id_;
  TableSpec spec_;
  std::string name_;
  Geometry geometry_;
  std::unique_ptr<Updater> updater_;
  UpdaterOptions updater_options_;
  std::optional<Storage> storage_;
  std::optional<Clock> clock_;
  bool rounds_ = false;
  bool per_unit_ = false;
  std::int64_t width_;

  struct Counters {
    std::atomic<std::uint64_t> calls{0}, bytes{0}, ns{0};
  };
  class Timed;
  Counters added_;
  Counters got_;
  std::atomic<std::uint64_t> waited_ns_{0};
};

}  // namespace pleiad
