// Options by name, and Multiverso's flags.
#include <map>

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "capi/mv_flags.h"
#include "core/option_list.h"
#include "pleiad/error.h"
#include "pleiad/pleiad.h"
#include "session.h"

namespace pleiad::python {

namespace nb = nanobind;

namespace {

using Described = std::tuple<std::string, std::string, std::string>;

template <class Options>
std::vector<Described> described(const std::vector<OptionField<Options>>& fields) {
  std::vector<Described> out;
  for (const auto& field : fields) out.emplace_back(field.name, field.get(Options{}), field.help);
  return out;
}

// "a=1, b=2", of which the flags make sure that no value has a comma.
std::map<std::string, std::string> as_map(const std::string& list) {
  std::map<std::string, std::string> out;
  std::size_t begin = 0;
  while (begin < list.size()) {
    const std::size_t end = std::min(list.find(", ", begin), list.size());
    const std::string item = list.substr(begin, end - begin);
    const std::size_t equals = item.find('=');
    out[item.substr(0, equals)] = item.substr(equals + 1);
    begin = end + 2;
  }
  return out;
}

mv::Flags parse(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  mv::Arguments read = mv::read_arguments({}, static_cast<int>(argv.size()), argv.data());
  std::vector<std::string> unknown(read.left.begin(), read.left.end());
  if (!unknown.empty()) throw InvalidArgument(mv::unknown_flags_message(unknown));
  return read.flags;
}

}  // namespace

void bind_options(nb::module_& m) {
  m.def("session_options", [] { return described(session_fields()); }, "Name, default and meaning of each.");
  m.def("table_options", [] { return described(table_fields()); }, "Name, default and meaning of each.");
  m.def("updater_options", [] { return described(updater_fields()); }, "Name, default and meaning of each.");
  m.def(
      "check_updater",
      [](const std::map<std::string, std::string>& options) {
        std::string list;
        for (const auto& [name, value] : options) {
          if (name.starts_with("updater")) list += (list.empty() ? "" : ",") + name + "=" + value;
        }
        if (pleiad_updater_check(list.c_str()) != PLEIAD_OK) throw InvalidArgument(pleiad_last_error());
      },
      nb::arg("options"), "Raises InvalidArgument where the updater that the options of a table name is not one.");
  nb::class_<mv::Flags>(m, "Flags", "Multiverso's flags: -sync=true, -updater_type=sgd and so on.")
      .def_static("parse", &parse, nb::arg("words"))
      .def("session_options", [](const mv::Flags& f) { return as_map(f.session_options()); })
      .def(
          "table_options",
          [](const mv::Flags& f, const std::string& dtype) {
            TableOptions options;
            set_option(options, "dtype", dtype);
            return as_map(f.table_options(options.dtype));
          },
          nb::arg("dtype"))
      .def_prop_ro("idle", [](const mv::Flags& f) { return f.ignored(); });
}

}  // namespace pleiad::python
