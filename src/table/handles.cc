// The public table handles: thin wrappers around Table.
#include "pleiad/error.h"
#include "pleiad/table.h"
#include "table/table.h"

namespace pleiad {

Pending::Pending(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}

Pending::~Pending() {
  if (operation_ != nullptr && !operation_->members().in_forked_child()) operation_->abandon();
}

Pending::Pending(Pending&&) noexcept = default;

Pending& Pending::operator=(Pending&& other) noexcept {
  Pending taken(std::move(other));
  std::swap(operation_, taken.operation_);  // the operation that this handle held is dropped with `taken`
  return *this;
}

bool Pending::done() const { return operation_ == nullptr || operation_->done(); }

bool Pending::failed() const { return operation_ != nullptr && operation_->failed(); }

void Pending::wait() {
  if (operation_ != nullptr) operation_->wait();
}

const std::string& TableHandle::name() const { return table_->name(); }
DType TableHandle::dtype() const { return table_->spec().options.dtype; }
std::uint32_t TableHandle::id() const { return table_->id(); }
TableStats TableHandle::stats() const { return TableUse(*table_)->stats(); }
void TableHandle::tick() const { TableUse(*table_)->tick(); }
std::uint64_t TableHandle::rounds() const { return TableUse(*table_)->rounds(); }

std::pair<std::int64_t, std::int64_t> TableHandle::shard(int server) const {
  const int servers = static_cast<int>(table_->context().roster.servers.size());
  if (server < 0 || server >= servers) {
    throw InvalidArgument("[shard] there are " + std::to_string(servers) + " servers; received " +
                          std::to_string(server));
  }
  const TableSpec& spec = table_->spec();
  if (spec.sparse) throw StateError("[shard] the rows of a sparse table are spread over the servers by their hash");
  const ShardRange range = shard_range(spec.matrix ? spec.rows : spec.cols, servers, server);
  return {range.begin, range.end};
}

void TableHandle::close() const { table_->close(); }
bool TableHandle::closed() const { return table_->closed(); }

void TableHandle::set(const ConstView& values, int root) const { TableUse(*table_)->set(values, root); }

std::int64_t ArrayTable::size() const { return table_->spec().cols; }
void ArrayTable::get(const View& out) const { TableUse(*table_)->get({}, out); }
void ArrayTable::add(const ConstView& delta, const AddOptions& options) const {
  TableUse(*table_)->add({}, delta, options);
}
void ArrayTable::add_get(const ConstView& delta, const View& out, const AddOptions& options) const {
  TableUse(*table_)->add_get(delta, out, options);
}
void ArrayTable::exchange(View values, View last, const AddOptions& options) const {
  TableUse(*table_)->exchange(values, last, options);
}
void ArrayTable::add_parts(std::span<const ArrayPart> delta, const View& out, const AddOptions& options,
                           std::span<const ElementRange> kept) const {
  TableUse(*table_)->add_parts(delta, out, options, kept);
}
void ArrayTable::step(std::span<const ArrayPart> delta, const AddOptions& options,
                      std::span<const ElementRange> kept) const {
  TableUse(*table_)->step(delta, options, kept);
}
View ArrayTable::map() const { return TableUse(*table_)->map(); }
std::shared_ptr<void> ArrayTable::mapped_memory() const { return TableUse(*table_)->mapped_memory(); }
Pending ArrayTable::get_async(const View& out) const { return TableUse(*table_)->get_async({}, out); }
Pending ArrayTable::add_async(const ConstView& delta, const AddOptions& options) const {
  return TableUse(*table_)->add_async({}, delta, options);
}

ArrayTable::RuleState ArrayTable::rule_state() const { return table_->rule_state(); }
void ArrayTable::save_to(View values, std::span<const View> arrays, std::span<double> numbers) const {
  TableUse(*table_)->save_to(values, arrays, numbers);
}
void ArrayTable::load_from(const ConstView& values, std::span<const ConstView> arrays,
                           std::span<const double> numbers) const {
  TableUse(*table_)->load_from(values, arrays, numbers);
}

std::int64_t MatrixTable::rows() const { return table_->spec().rows; }
std::int64_t MatrixTable::cols() const { return table_->spec().cols; }
void MatrixTable::get(const View& out) const { TableUse(*table_)->get({}, out); }
void MatrixTable::add(const ConstView& delta, const AddOptions& options) const {
  TableUse(*table_)->add({}, delta, options);
}
Pending MatrixTable::get_async(const View& out) const { return TableUse(*table_)->get_async({}, out); }
Pending MatrixTable::add_async(const ConstView& delta, const AddOptions& options) const {
  return TableUse(*table_)->add_async({}, delta, options);
}
void MatrixTable::get_rows(std::span<const RowId> ids, const View& out) const {
  TableUse(*table_)->get({.all = false, .ids = ids}, out);
}
void MatrixTable::add_rows(std::span<const RowId> ids, const ConstView& delta, const AddOptions& options) const {
  TableUse(*table_)->add({.all = false, .ids = ids}, delta, options);
}
Pending MatrixTable::get_rows_async(std::span<const RowId> ids, const View& out) const {
  return TableUse(*table_)->get_async({.all = false, .ids = ids}, out);
}
Pending MatrixTable::add_rows_async(std::span<const RowId> ids, const ConstView& delta,
                                    const AddOptions& options) const {
  return TableUse(*table_)->add_async({.all = false, .ids = ids}, delta, options);
}

ChangedRows MatrixTable::get_changed() const { return TableUse(*table_)->get_changed(); }

std::int64_t SparseTable::cols() const { return table_->spec().cols; }
std::int64_t SparseTable::rows() const { return TableUse(*table_)->rows(); }
void SparseTable::get(std::span<const RowId> ids, const View& out) const {
  TableUse(*table_)->get({.all = false, .ids = ids}, out);
}
void SparseTable::add(std::span<const RowId> ids, const ConstView& delta, const AddOptions& options) const {
  TableUse(*table_)->add({.all = false, .ids = ids}, delta, options);
}
Pending SparseTable::get_async(std::span<const RowId> ids, const View& out) const {
  return TableUse(*table_)->get_async({.all = false, .ids = ids}, out);
}
Pending SparseTable::add_async(std::span<const RowId> ids, const ConstView& delta, const AddOptions& options) const {
  return TableUse(*table_)->add_async({.all = false, .ids = ids}, delta, options);
}
ChangedRows SparseTable::get_changed() const { return TableUse(*table_)->get_changed(); }
ChangedRows SparseTable::get_all() const { return TableUse(*table_)->get_all(); }
void SparseTable::set(std::span<const RowId> ids, const ConstView& values, int root) const {
  TableUse(*table_)->set_rows(ids, values, root);
}
std::int64_t SparseTable::evict() const { return TableUse(*table_)->evict(); }

std::int64_t KeyValueTable::width() const { return table_->spec().cols; }
std::int64_t KeyValueTable::size() const { return TableUse(*table_)->rows(); }
void KeyValueTable::get(std::span<const RowId> keys, const View& out) const {
  TableUse(*table_)->get({.all = false, .ids = keys}, out);
}
void KeyValueTable::add(std::span<const RowId> keys, const ConstView& delta, const AddOptions& options) const {
  TableUse(*table_)->add({.all = false, .ids = keys}, delta, options);
}
Pending KeyValueTable::get_async(std::span<const RowId> keys, const View& out) const {
  return TableUse(*table_)->get_async({.all = false, .ids = keys}, out);
}
Pending KeyValueTable::add_async(std::span<const RowId> keys, const ConstView& delta, const AddOptions& options) const {
  return TableUse(*table_)->add_async({.all = false, .ids = keys}, delta, options);
}
ChangedRows KeyValueTable::get_changed() const { return TableUse(*table_)->get_changed(); }
ChangedRows KeyValueTable::get_all() const { return TableUse(*table_)->get_all(); }
std::int64_t KeyValueTable::evict() const { return TableUse(*table_)->evict(); }

}  // namespace pleiad
