#include "session.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "arrays.h"
#include "core/option_list.h"
#include "core/text.h"
#include "pleiad/pleiad.hpp"
#include "waiting.h"

namespace pleiad::python {

SessionHandle* SessionHandle::start(const std::map<std::string, std::string>& given) {
  SessionOptions options;
  for (const auto& [name, value] : given) set_option(options, name, value);
  const auto interrupt = signal_check();
  auto session = waiting([&] { return std::make_shared<Session>(Session::start(options, interrupt)); });
  return new SessionHandle(std::move(session));
}

std::string SessionHandle::leave(const std::string& why) {
  auto session = std::move(session_);
  return waiting([&] {
    std::string first = session == nullptr || why.empty() ? "" : session->give_up(why);
    session.reset();
    return first;
  });
}

namespace {

using Options = std::map<std::string, std::string>;

// Runs a call on borrowed arrays that waits for other ranks.
template <class F>
void with(const SessionHandle& handle, F&& body) {
  const std::shared_ptr<Session> session = handle.share();
  waiting([&] { body(*session); });
}

ReduceOp op_named(const std::string& name) {
  static const std::vector<std::string> known = {"sum", "min", "max", "mean"};
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i] == name) return static_cast<ReduceOp>(i);
  }
  throw InvalidArgument(unknown_name("operation", name, known));
}

TableOptions table_options(const Options& given) {
  TableOptions options;
  for (const auto& [name, value] : given) set_option(options, name, value);
  return options;
}

std::optional<Borrowed> initial_values(nb::handle values) {
  if (values.is_none()) return std::nullopt;
  return std::optional<Borrowed>(std::in_place, values, Access::read, "initial values");
}

Options words_of(const SessionOptions& options) {
  Options words;
  for (const auto& field : session_fields()) words[field.name] = field.get(options);
  return words;
}

void bind_world(nb::class_<SessionHandle>& c) {
  using H = SessionHandle;
  c.def_prop_ro("rank", [](const H& h) { return h.use().rank(); })
      .def_prop_ro("size", [](const H& h) { return h.use().size(); })
      .def_prop_ro("workers", [](const H& h) { return h.use().workers(); })
      .def_prop_ro("servers", [](const H& h) { return h.use().servers(); })
      .def_prop_ro("worker_id", [](const H& h) { return h.use().worker_id(); })
      .def_prop_ro("server_id", [](const H& h) { return h.use().server_id(); })
      .def(
          "worker_rank", [](const H& h, int worker) { return h.use().ranks().worker_rank(worker); }, nb::arg("worker"))
      .def(
          "server_rank", [](const H& h, int server) { return h.use().ranks().server_rank(server); }, nb::arg("server"))
      .def_prop_ro("hosts", [](const H& h) { return h.use().hosts(); })
      .def(
          "host_of", [](const H& h, int rank) { return h.use().ranks().host_of(rank); }, nb::arg("rank"))
      .def(
          "host_name", [](const H& h, int rank) { return h.use().ranks().host_name(rank); }, nb::arg("rank"))
      .def(
          "alive", [](const H& h, int rank) { return h.use().ranks().alive(rank); }, nb::arg("rank"))
      .def_prop_ro("engine", [](const H& h) { return h.use().engine(); })
      .def_prop_ro("options", [](const H& h) { return words_of(h.use().options()); })
      .def("stats", [](const H& h) { return h.use().stats(); })
      .def(
          "collective_stats",
          [](const H& h) {
            const CollectiveStats s = h.use().collective_stats();
            nb::dict out;
            out["calls"] = s.calls;
            out["bytes"] = s.bytes;
            out["seconds"] = s.seconds;
            return out;
          },
          nb::sig("def collective_stats(self) -> dict[str, int | float]"))
      .def("report", [](const H& h) { return h.use().report(); });
}

void bind_collectives(nb::class_<SessionHandle>& c) {
  using H = SessionHandle;
  c.def("barrier", [](const H& h) { with(h, [](Session& s) { s.barrier(); }); })
      .def(
          "all_reduce",
          [](const H& h, nb::handle data, const std::string& op, std::uint32_t tag) {
            const ReduceOp how = op_named(op);
            const Borrowed array(data, Access::write, "all_reduce");
            with(h, [&](Session& s) { s.all_reduce(array.view(), how, tag); });
          },
          nb::arg("data").none(), nb::arg("op"), nb::arg("tag") = 0)
      .def(
          "broadcast",
          [](const H& h, nb::handle data, int root) {
            const Borrowed array(data, Access::write, "broadcast");
            with(h, [&](Session& s) { s.broadcast(array.view(), root); });
          },
          nb::arg("data").none(), nb::arg("root"))
      .def(
          "all_gather",
          [](const H& h, nb::handle data, nb::handle out) {
            const Borrowed from(data, Access::read, "all_gather");
            const Borrowed to(out, Access::write, "all_gather");
            with(h, [&](Session& s) { s.all_gather(from.view(), to.view()); });
          },
          nb::arg("data").none(), nb::arg("out").none())
      .def(
          "reduce_scatter",
          [](const H& h, nb::handle data, nb::handle out, const std::string& op) {
            const ReduceOp how = op_named(op);
            const Borrowed from(data, Access::read, "reduce_scatter");
            const Borrowed to(out, Access::write, "reduce_scatter");
            with(h, [&](Session& s) { s.reduce_scatter(from.view(), to.view(), how); });
          },
          nb::arg("data").none(), nb::arg("out").none(), nb::arg("op"))
      .def(
          "send",
          [](const H& h, int to, std::uint32_t tag, nb::handle data) {
            const Borrowed from(data, Access::read, "send");
            with(h, [&](Session& s) { s.send(to, tag, from.view()); });
          },
          nb::arg("to"), nb::arg("tag"), nb::arg("data").none())
      .def(
          "receive",
          [](const H& h, int source, std::uint32_t tag, nb::handle out) {
            const Borrowed to(out, Access::write, "receive");
            with(h, [&](Session& s) { s.receive(source, tag, to.view()); });
          },
          nb::arg("source"), nb::arg("tag"), nb::arg("out").none());
}

nb::dict as_dict(const SnapshotNote& note) {
  nb::dict out;
  out["step"] = note.step;
  out["notes"] = nb::cast(note.text);
  return out;
}

// A Snapshots that keeps its session alive.
class SnapshotsHandle {
 public:
  SnapshotsHandle(const SessionHandle& session, const std::string& folder, const SnapshotOptions& options)
      : session_(session.share()) {
    waiting([&] { snapshots_ = std::make_unique<Snapshots>(*session_, folder, options); });
  }
  ~SnapshotsHandle() {
    const nb::gil_scoped_release release;
    snapshots_.reset();
  }
  SnapshotsHandle(const SnapshotsHandle&) = delete;
  SnapshotsHandle& operator=(const SnapshotsHandle&) = delete;
  Snapshots& use() const { return *snapshots_; }

 private:
  std::shared_ptr<Session> session_;
  std::unique_ptr<Snapshots> snapshots_;
};

using Notes = std::map<std::string, std::string>;

void bind_snapshots(nb::module_& m, nb::class_<SessionHandle>& c) {
  c.def(
       "save",
       [](const SessionHandle& h, const std::string& folder, std::int64_t step, const Notes& notes) {
         with(h, [&](Session& s) { save_tables(s, folder, {.step = step, .text = notes}); });
       },
       nb::arg("folder"), nb::arg("step"), nb::arg("notes"))
      .def(
          "load",
          [](const SessionHandle& h, const std::string& folder, bool values_only) {
            SnapshotNote note;
            with(h, [&](Session& s) { note = load_tables(s, folder, {.values_only = values_only}); });
            return as_dict(note);
          },
          nb::arg("folder"), nb::arg("values_only"),
          nb::sig("def load(self, folder: str, values_only: bool) -> dict[str, object]"));
  using H = SnapshotsHandle;
  nb::class_<H>(m, "Snapshots")
      .def(
          "__init__",
          [](H* self, const SessionHandle& session, const std::string& folder, std::int64_t every_steps,
             double every_seconds, int keep, bool background) {
            new (self)
                H(session, folder,
                  {.every_steps = every_steps, .every_seconds = every_seconds, .keep = keep, .background = background});
          },
          nb::arg("session"), nb::arg("folder"), nb::arg("every_steps"), nb::arg("every_seconds"), nb::arg("keep"),
          nb::arg("background"))
      .def(
          "load_last",
          [](const H& h, bool values_only) -> std::optional<nb::dict> {
            std::optional<SnapshotNote> note;
            waiting([&] { note = h.use().load_last({.values_only = values_only}); });
            if (!note) return std::nullopt;
            return as_dict(*note);
          },
          nb::arg("values_only"), nb::sig("def load_last(self, values_only: bool) -> dict[str, object] | None"))
      .def(
          "step",
          [](const H& h, std::int64_t step, const Notes& notes) {
            return waiting([&] { return h.use().step(step, notes); });
          },
          nb::arg("step"), nb::arg("notes"))
      .def(
          "save",
          [](const H& h, std::int64_t step, const Notes& notes) {
            waiting([&] { h.use().save({.step = step, .text = notes}); });
          },
          nb::arg("step"), nb::arg("notes"))
      .def("wait", [](const H& h) { waiting([&] { h.use().wait(); }); });
}

// Reads the arguments of a table's creation, which is collective: an error on this rank is thrown on all ranks.
template <class F>
auto read_or_refuse(Session& session, F&& read) {
  std::string mistake;
  try {
    return read();
  } catch (const Error& error) {
    mistake = error.what();
  }
  waiting([&] { session.refuse_table(mistake); });
  throw InternalError(mistake);
}

struct Creation {
  TableOptions options;
  std::optional<Borrowed> values;
  [[nodiscard]] View initial() const { return values ? values->view() : View(); }
};

void bind_creation(nb::class_<SessionHandle>& c) {
  using H = SessionHandle;
  c.def(
       "create_array",
       [](const H& h, std::int64_t size, const Options& options, nb::handle initial) {
         const auto session = h.share();
         const Creation wish = read_or_refuse(
             *session, [&] { return Creation{.options = table_options(options), .values = initial_values(initial)}; });
         return waiting([&] { return session->create_array(size, wish.options, wish.initial()); });
       },
       nb::arg("size"), nb::arg("options"), nb::arg("initial").none())
      .def(
          "create_matrix",
          [](const H& h, std::int64_t rows, std::int64_t cols, const Options& options, nb::handle initial) {
            const auto session = h.share();
            const Creation wish = read_or_refuse(*session, [&] {
              Creation read{.options = table_options(options), .values = initial_values(initial)};
              if (read.values) read.values->expect_rows(rows, cols, "initial values");
              return read;
            });
            return waiting([&] { return session->create_matrix(rows, cols, wish.options, wish.initial()); });
          },
          nb::arg("rows"), nb::arg("cols"), nb::arg("options"), nb::arg("initial").none())
      .def(
          "create_sparse",
          [](const H& h, std::int64_t cols, const Options& options) {
            const auto session = h.share();
            const TableOptions wish = read_or_refuse(*session, [&] { return table_options(options); });
            return waiting([&] { return session->create_sparse(cols, wish); });
          },
          nb::arg("cols"), nb::arg("options"))
      .def(
          "create_key_value",
          [](const H& h, std::int64_t width, const Options& options) {
            const auto session = h.share();
            const TableOptions wish = read_or_refuse(*session, [&] { return table_options(options); });
            return waiting([&] { return session->create_key_value(width, wish); });
          },
          nb::arg("width"), nb::arg("options"))
      .def(
          "refuse_table",
          [](const H& h, const std::string& why) {
            const auto session = h.share();
            waiting([&] { session->refuse_table(why); });
          },
          nb::arg("why"), "Takes part in the collective creation of a table with an error, which all ranks raise.");
}

}  // namespace

void bind_session(nb::module_& m) {
  nb::class_<SessionHandle> c(m, "Session");
  c.def_static("start", &SessionHandle::start, nb::arg("options"))
      .def("shutdown", [](const SessionHandle& h) { with(h, [](Session& s) { s.shutdown(); }); })
      .def(
          "leave", &SessionHandle::leave, nb::arg("why") = "",
          "Ends the session without the other ranks, which treat this rank as dead: their waits raise with the message "
          "`why`. Returns the message of the rank that left first.");
  bind_world(c);
  bind_collectives(c);
  bind_creation(c);
  bind_snapshots(m, c);
}

}  // namespace pleiad::python
