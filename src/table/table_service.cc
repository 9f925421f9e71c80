#include "table/table_service.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "core/kernels.h"
#include "pleiad/error.h"

namespace pleiad {

namespace {

[[noreturn]] void refuse_request(const TableHead& head, std::string_view what) {
  throw InvalidArgument(fmt::format("a request to shard {} of table {} is wrong: {}", head.shard, head.table, what));
}

bool is(const IncomingRequest& request, TableOperation operation) {
  return request.operation == static_cast<std::uint32_t>(operation);
}

}  // namespace

TableService::TableService(TableContext& context) : context_(context), home_(context) {
  context_.engine->rpc()->set_handler(this);
  context_.ledger.set_source([this](std::uint64_t k) { return home_entry(context_, k); });
}

TableContext::TableContext(std::shared_ptr<Engine> the_engine, Roster the_roster)
    : engine(std::move(the_engine)),
      roster(std::move(the_roster)),
      ledger(*engine, roster.workers),
      clocked(*engine, failures),
      background(*engine, failures) {}
TableContext::~TableContext() = default;

TableService::~TableService() {
  // the service thread, and any lock that it holds, belong to the parent process
  if (context_.engine->members().in_forked_child()) return;
  context_.engine->rpc()->set_handler(nullptr);
  context_.ledger.set_source({});
}

void TableService::add_table(std::uint32_t id, const TableSpec& spec, std::vector<std::shared_ptr<Shard>> shards) {
  const std::lock_guard lock(mutex_);
  tables_[id] = {.width = static_cast<std::int64_t>(size_of(spec.options.dtype)),
                 .cols = spec.matrix ? spec.cols : 0,
                 .shards = std::move(shards)};
  if (context_.engine->world().rank() != context_.engine->world().clock_home() || spec.options.clock == "async") return;
  home_.add_table(id, spec.clock_rule(static_cast<int>(context_.roster.workers.size())));
}

void TableService::remove_table(std::uint32_t id) {
  const std::lock_guard lock(mutex_);
  tables_.erase(id);
  home_.remove_table(id);
}

void TableService::tick() {
  const std::lock_guard lock(mutex_);
  home_.look();
}

bool TableService::unanswered() const {
  const std::lock_guard lock(mutex_);
  return home_.somebody_waits();
}

TableService::RequestTarget TableService::target(const TableHead& head) const {
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(head.table);
  if (found == tables_.end()) refuse_request(head, "there is no such table");
  if (head.shard >= found->second.shards.size()) refuse_request(head, "there is no such shard on this host");
  if (head.worker < 0 || head.worker >= std::max<int>(1, static_cast<int>(context_.roster.workers.size()))) {
    refuse_request(head, fmt::format("there is no worker {}", head.worker));
  }
  const auto& [width, cols, shards] = found->second;
  if (head.closed > 0) shards[head.shard]->close_rounds(head.closed);
  return {.width = width, .cols = cols, .shard = shards[head.shard]};
}

bool TableService::handle(const IncomingRequest& request, FunctionRef<std::span<char>(std::size_t)> answer) {
  TableHead head;
  if (request.body.size() < sizeof head) throw InvalidArgument("a request to a table is too short");
  std::memcpy(&head, request.body.data(), sizeof head);
  const auto rest = request.body.subspan(sizeof head);
  switch (static_cast<TableOperation>(request.operation)) {
    case TableOperation::add:
    case TableOperation::get:
    case TableOperation::add_get: on_stripes(head, request, rest, answer); return true;
    case TableOperation::add_rows:
    case TableOperation::get_rows: on_rows(head, request, rest, answer); return true;
    case TableOperation::extent:
    case TableOperation::evict: on_whole(head, request, answer); return true;
    case TableOperation::changed: on_changed(head, rest, answer); return true;
    default: break;
  }
  const std::lock_guard lock(mutex_);
  switch (static_cast<TableOperation>(request.operation)) {
    case TableOperation::begin: return home_.begin(head, request, answer);
    case TableOperation::end: home_.end(head, request); return true;
    case TableOperation::settle: {
      const std::uint64_t closed = home_.settle(head);
      std::memcpy(answer(sizeof closed).data(), &closed, sizeof closed);
      return true;
    }
    case TableOperation::entry: {
      const LedgerEntry entry = home_.entry(static_cast<std::uint64_t>(head.first));
      std::memcpy(answer(sizeof entry).data(), &entry, sizeof entry);
      return true;
    }
    default: break;
  }
  throw InvalidArgument(fmt::format("unknown table operation {}", request.operation));
}

void TableService::on_stripes(const TableHead& head, const IncomingRequest& request, std::span<const char> rest,
                              FunctionRef<std::span<char>(std::size_t)> answer) {
  const RequestTarget table = target(head);
  Shard& shard = *table.shard;
  const Geometry& geometry = shard.geometry();
  if (shard.sparse() != nullptr) refuse_request(head, "a sparse table is read by rows");
  if (head.first < 0 || head.count < 1 || head.first > geometry.stripes() - head.count)
    refuse_request(head, "no such stripes");
  const StripeRange stripes{head.first, head.first + head.count};
  const std::int64_t begin = geometry.start(geometry.first_unit(stripes.first));
  const std::int64_t end = geometry.start(geometry.end_unit(stripes.end - 1));
  const auto bytes = static_cast<std::size_t>((end - begin) * table.width);
  const bool adds = !is(request, TableOperation::get);
  const bool gets = !is(request, TableOperation::add);
  std::vector<ElementRange> kept;
  if (head.kept != 0) {
    const auto most = static_cast<std::int64_t>(rest.size() / sizeof(ElementRange));
    if (!adds || head.kept < 0 || head.kept > most || shard.rounds()) refuse_request(head, "no elements can be kept");
    kept.resize(static_cast<std::size_t>(head.kept));
    std::memcpy(kept.data(), rest.data(), kept.size() * sizeof(ElementRange));
    rest = rest.subspan(kept.size() * sizeof(ElementRange));
    std::int64_t after = begin;
    for (const ElementRange& range : kept) {
      if (range.begin < after || range.end < range.begin || range.end > end)
        refuse_request(head, "the kept elements are not in ascending order or not in these stripes");
      after = range.end;
    }
  }
  if (rest.size() != (adds ? bytes : 0)) {
    refuse_request(head, fmt::format("expected {} bytes of deltas, received {}", adds ? bytes : 0, rest.size()));
  }
  const Requester requester{.worker = head.worker, .round = head.round};
  const auto delta_of = [&](std::int64_t first, std::size_t) { return rest.data() + (first - begin) * table.width; };
  char* out = gets ? answer(bytes).data() : nullptr;
  const auto take = [&](const char* values, std::int64_t first, std::size_t count) {
    copy_bytes(out + (first - begin) * table.width, values, count * static_cast<std::size_t>(table.width));
  };
  const bool fresh = adds && !request.repeated;
  if (fresh && gets) return shard.add_get(requester, stripes, head.rates, delta_of, take, kept);
  if (fresh) return shard.add(requester, stripes, head.rates, delta_of, kept);
  if (gets) shard.get(stripes, take);
}

void TableService::on_rows(const TableHead& head, const IncomingRequest& request, std::span<const char> rest,
                           FunctionRef<std::span<char>(std::size_t)> answer) {
  const RequestTarget table = target(head);
  Shard& shard = *table.shard;
  const std::int64_t row_bytes = table.cols * table.width;
  const bool adds = is(request, TableOperation::add_rows);
  const std::int64_t each = static_cast<std::int64_t>(sizeof(RowId)) + (adds ? row_bytes : 0);
  if (table.cols == 0 || head.count < 0 || static_cast<std::int64_t>(rest.size()) / each != head.count ||
      static_cast<std::int64_t>(rest.size()) % each != 0) {
    refuse_request(head, fmt::format("{} bytes are not {} rows", rest.size(), head.count));
  }
  const std::span<const RowId> ids(reinterpret_cast<const RowId*>(rest.data()), static_cast<std::size_t>(head.count));
  const auto outside = [&](RowId id) { return shard.sparse() == nullptr && (id < 0 || id >= shard.geometry().units); };
  if (const auto bad = std::ranges::find_if(ids, outside); bad != ids.end()) {
    refuse_request(head, fmt::format("it has {} rows; received row {}", shard.geometry().units, *bad));
  }
  if (!adds) return shard.get_rows(ids, answer(static_cast<std::size_t>(head.count * row_bytes)).data());
  if (request.repeated) return;
  shard.add_rows({.worker = head.worker, .round = head.round}, ids, rest.data() + ids.size_bytes(), head.rates);
}

}  // namespace pleiad
