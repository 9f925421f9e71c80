// Python bindings of nets, initialisers and schedules.
#include "pleiad/nn/net.h"

#include <fmt/format.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "core/option_field.h"
#include "nn/own_layer.h"
#include "nn/phase.h"
#include "nn/tensors.h"
#include "pleiad/nn/layers.h"
#include "pleiad/train.h"
#include "waiting.h"

namespace pleiad::python {

namespace nb = nanobind;
using nn::Net;

namespace {

using Lengths = std::vector<std::int64_t>;
using Modules = std::vector<std::pair<std::string, std::string>>;

Shape shape_of(const Lengths& lengths) {
  if (lengths.size() >= Shape::kMaxRank) {
    throw InvalidArgument(
        fmt::format("expected a sample of at most {} axes; received {}", Shape::kMaxRank - 1, lengths.size()));
  }
  for (const std::int64_t length : lengths) {
    if (length < 1) throw InvalidArgument(fmt::format("expected lengths of at least 1; received {}", length));
  }
  return Shape(std::span<const std::int64_t>(lengths));
}

Lengths lengths_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

void bind_building(nb::class_<Net>& c) {
  c.def(
       "__init__",
       [](Net* self, const std::string& name, const std::string& dtype, std::uint64_t seed) {
         new (self) Net({.name = name, .dtype = dtype_named(dtype), .seed = seed});
       },
       nb::arg("name"), nb::arg("dtype"), nb::arg("seed"))
      .def(
          "input",
          [](Net& net, const std::string& name, const Lengths& sample, const std::string& dtype) {
            net.input(name, shape_of(sample), dtype_named(dtype));
          },
          nb::arg("name"), nb::arg("sample"), nb::arg("dtype"))
      .def(
          "add",
          [](Net& net, const std::string& name, const std::string& kind, const nn::LayerFields& fields,
             const std::vector<std::string>& inputs, const std::vector<std::string>& phases) {
            nn::Placement placement{.inputs = inputs};
            if (!phases.empty()) placement.phases.clear();
            for (const std::string& phase : phases) placement.phases.push_back(phase_named(phase));
            net.add(name, nn::make_layer(kind, fields), std::move(placement));
          },
          nb::arg("name"), nb::arg("kind"), nb::arg("fields"), nb::arg("inputs"), nb::arg("phases"))
      .def(
          "add_own",
          [](Net& net, const std::string& name, const nb::object& layer, const nn::LayerFields& fields,
             const std::vector<std::string>& inputs, const std::vector<std::string>& phases) {
            nn::Placement placement{.inputs = inputs};
            if (!phases.empty()) placement.phases.clear();
            for (const std::string& phase : phases) placement.phases.push_back(phase_named(phase));
            net.add(name, own_layer(layer, fields), std::move(placement));
          },
          nb::arg("name"), nb::arg("layer"), nb::arg("fields"), nb::arg("inputs"), nb::arg("phases"),
          nb::sig("def add_own(self, name: str, layer: object, fields: collections.abc.Sequence[tuple[str, str]], "
                  "inputs: collections.abc.Sequence[str], phases: collections.abc.Sequence[str]) -> None"))
      .def(
          "prepare", [](Net& net, std::int64_t batch) { waiting([&] { net.prepare(batch); }); }, nb::arg("batch"))
      .def("fix", &Net::fix, nb::arg("parameter"), nb::arg("fixed"))
      .def(
          "fixed", [](Net& net, const std::string& name) { return net.parameter(name).fixed; }, nb::arg("parameter"))
      .def(
          "forget", [](Net& net, const std::string& phase) { net.control().forget(phase_named(phase)); },
          nb::arg("phase"))
      .def_prop_ro("name", [](const Net& net) { return net.options().name; })
      .def_prop_ro("dtype", [](const Net& net) { return std::string(name_of(net.options().dtype)); })
      .def_prop_ro("seed", [](const Net& net) { return net.options().seed; })
      .def_prop_ro("batch", &Net::batch)
      .def("input_names", &Net::input_names)
      .def("layer_names", &Net::layer_names)
      .def("describe", &Net::describe)
      .def("text", &Net::text)
      .def("dot", [](const Net& net) { return net.graph().dot(); });
}

void bind_passing(nb::class_<Net>& c) {
  c.def(
       "forward",
       [](Net& net, const std::string& phase, std::int64_t step, std::int64_t first_sample) {
         const nn::Phase in = phase_named(phase);
         waiting([&] { net.forward(in, step, first_sample); });
       },
       nb::arg("phase"), nb::arg("step"), nb::arg("first_sample"))
      .def("backward", [](Net& net) { waiting([&] { net.backward(); }); })
      .def("loss", &Net::loss)
      .def("metrics", &Net::metrics)
      .def("first_not_finite", [](const Net& net) { return nn::first_not_finite(net); })
      .def("set_seed", [](Net& net, std::uint64_t seed) { net.control().set_seed(seed); }, nb::arg("seed"));
}

void bind_arrays_of(nb::class_<Net>& c) {
  c.def(
       "input_array", [](const Net& net, const std::string& name) { return array_of(net.input_tensor(name)); },
       nb::arg("name"), nb::sig("def input_array(self, name: str) -> numpy.typing.NDArray[typing.Any]"))
      .def(
          "input_sample",
          [](const Net& net, const std::string& name) { return lengths_of(net.graph().input_sample(name)); },
          nb::arg("name"))
      .def(
          "input_tile",
          [](const Net& net, const std::string& name) -> nb::object {
            const std::optional<Rect> tile = net.graph().input_tile(name);
            if (!tile) return nb::none();
            return nb::make_tuple(tile->h.begin, tile->h.end, tile->w.begin, tile->w.end);
          },
          nb::arg("name"), nb::sig("def input_tile(self, name: str) -> tuple[int, int, int, int] | None"))
      .def(
          "weigh_samples", [](Net& net, bool on) { net.control().weigh_samples(on); }, nb::arg("on"))
      .def(
          "sample_weights", [](Net& net) { return array_of(net.control().sample_weights()); },
          nb::sig("def sample_weights(self) -> numpy.typing.NDArray[typing.Any]"))
      .def(
          "output",
          [](const Net& net, const std::string& name) -> nb::object {
            const Tensor out = net.output(name);
            return out.empty() ? nb::none() : array_of(out);
          },
          nb::arg("name"), nb::sig("def output(self, name: str) -> numpy.typing.NDArray[typing.Any] | None"))
      .def(
          "output_shape", [](const Net& net, const std::string& name) { return lengths_of(net.output(name).shape()); },
          nb::arg("name"))
      .def(
          "parameter", [](Net& net, const std::string& name) { return array_of(net.parameter(name).value); },
          nb::arg("name"), nb::sig("def parameter(self, name: str) -> numpy.typing.NDArray[typing.Any]"))
      .def(
          "gradient",
          [](Net& net, const std::string& name) -> nb::object {
            const Tensor& gradient = net.parameter(name).gradient;
            return gradient.empty() ? nb::none() : array_of(gradient);
          },
          nb::arg("name"), nb::sig("def gradient(self, name: str) -> numpy.typing.NDArray[typing.Any] | None"))
      .def("parameter_names",
           [](Net& net) {
             std::vector<std::string> names;
             for (const nn::Parameter& p : net.parameters()) names.push_back(p.name);
             return names;
           })
      .def(
          "torch_state", [](const Net& net) { return arrays_of(nn::torch_state(net)); },
          nb::sig("def torch_state(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"))
      .def(
          "load_torch_state",
          [](Net& net, const nb::dict& state, const Modules& modules) {
            nn::load_torch_state(net, tensors_of(state, "state"), modules);
          },
          nb::arg("state"), nb::arg("modules"),
          nb::sig("def load_torch_state(self, state: dict[str, numpy.typing.NDArray[typing.Any]], modules: "
                  "collections.abc.Sequence[tuple[str, str]]) -> None"))
      .def(
          "export_file",
          [](const Net& net, const std::string& path, const std::string& layout) {
            waiting([&] { export_parameters(net, path, layout); });
          },
          nb::arg("path"), nb::arg("layout"))
      .def(
          "import_file",
          [](Net& net, const std::string& path, const Modules& modules) {
            waiting([&] { import_parameters(net, path, modules); });
          },
          nb::arg("path"), nb::arg("modules"))
      .def(
          "load_parameters",
          [](Net& net, const std::string& folder) { waiting([&] { load_parameters(net, folder); }); },
          nb::arg("folder"))
      .def(
          "states", [](const Net& net) { return arrays_of(net.states()); },
          nb::sig("def states(self) -> dict[str, numpy.typing.NDArray[typing.Any]]"));
}

}  // namespace

void bind_nets(nb::module_& m) {
  nb::class_<Net> net(m, "Net");
  bind_building(net);
  bind_passing(net);
  bind_arrays_of(net);
  m.def(
      "load_net",
      [](const std::string& folder) {
        return waiting([&] { return std::make_unique<Net>(load_net(folder)); }).release();
      },
      nb::rv_policy::take_ownership, nb::arg("folder"));
  m.def(
      "net_from_text",
      [](const std::string& text, const std::string& where) { return new Net(nn::net_from_text(text, where)); },
      nb::rv_policy::take_ownership, nb::arg("text"), nb::arg("where"));
  m.def("layer_kinds", &nn::layer_kinds);
  m.def("init_names", &nn::init_names);
  m.def("schedule_names", &nn::schedule_names);

  using S = nn::Schedule;
  nb::class_<S>(m, "Schedule", "A rate that depends on the step. `schedule(step)` returns the rate at a step.")
      .def(
          "__init__",
          [](S* self, const std::string& type, double base, double final, double gamma, double power, std::int64_t freq,
             std::int64_t start, const std::vector<std::int64_t>& steps, const std::vector<double>& rates,
             std::int64_t warmup, double warmup_from) {
            S schedule{type, base, final, gamma, power, freq, start, steps, rates, warmup, warmup_from};
            check(schedule);
            new (self) S(std::move(schedule));
          },
          nb::arg("type") = "fixed", nb::arg("base") = 0.01, nb::arg("final") = 0.0, nb::arg("gamma") = 1.0,
          nb::arg("power") = 0.0, nb::arg("freq") = 1, nb::arg("start") = 0,
          nb::arg("steps") = std::vector<std::int64_t>{}, nb::arg("rates") = std::vector<double>{},
          nb::arg("warmup") = 0, nb::arg("warmup_from") = 0.0)
      .def_ro("type", &S::type)
      .def("__call__", [](const S& schedule, std::int64_t step) { return rate_at(schedule, step); }, nb::arg("step"));
}

}  // namespace pleiad::python
