// Python bindings of stores, their samples, writers and event files.
#include "pleiad/data.h"

#include <cstring>
#include <memory>

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "nn/tensors.h"
#include "pleiad/error.h"
#include "pleiad/events.h"
#include "pleiad/records.h"
#include "pleiad/train.h"
#include "waiting.h"

namespace pleiad::python {

namespace nb = nanobind;

namespace {

using InputLengths = std::vector<std::int64_t>;
using Side = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
using Dense = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

nb::dlpack::dtype stored_element(FieldType type) {
  switch (type) {
    case FieldType::uint8: return nb::dtype<std::uint8_t>();
    case FieldType::float32: return nb::dtype<float>();
    case FieldType::float64: return nb::dtype<double>();
    case FieldType::int32: return nb::dtype<std::int32_t>();
    case FieldType::int64: return nb::dtype<std::int64_t>();
  }
  return nb::dtype<float>();
}

FieldType type_named(const std::string& name) {
  for (const FieldType type :
       {FieldType::uint8, FieldType::float32, FieldType::float64, FieldType::int32, FieldType::int64}) {
    if (name_of(type) == name) return type;
  }
  throw InvalidArgument(fmt::format("expected uint8, float32, float64, int32 or int64; received {}", name));
}

nb::object read(const Store& store, const std::string& name, const InputLengths& records) {
  const std::size_t index = store.field(name);
  const Field& field = store.fields()[index];
  auto memory = std::make_unique<std::vector<std::byte>>(field.bytes() * records.size());
  waiting([&] { store.read(index, records, *memory); });
  std::vector<std::size_t> shape = {records.size()};
  shape.insert(shape.end(), field.shape.begin(), field.shape.end());
  void* const data = memory->data();
  const nb::capsule owner(memory.release(), [](void* p) noexcept { delete static_cast<std::vector<std::byte>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr, stored_element(field.type)));
}

std::optional<Window> window_of(const std::optional<Side>& given) {
  if (!given) return std::nullopt;
  const auto [top, left, height, width] = *given;
  return Window{.top = top, .left = left, .height = height, .width = width};
}

char separator_of(const std::string& text) {
  if (text.size() != 1) throw InvalidArgument(fmt::format("separator: expected one character; received \"{}\"", text));
  return text[0];
}

void bind_stores(nb::module_& m) {
  m.def("store_kinds", &store_kinds);
  m.def("writable_kinds", &writable_kinds);
  nb::class_<Store>(m, "Store")
      .def_prop_ro("name", &Store::name)
      .def_prop_ro("size", &Store::size)
      .def_prop_ro("fields",
                   [](const Store& store) {
                     std::vector<std::tuple<std::string, std::string, InputLengths>> all;
                     for (const Field& f : store.fields()) all.emplace_back(f.name, name_of(f.type), f.shape);
                     return all;
                   })
      .def("read", &read, nb::arg("field"), nb::arg("records"),
           nb::sig("def read(self, field: str, records: collections.abc.Sequence[int]) -> "
                   "numpy.typing.NDArray[typing.Any]"))
      .def(
          "statistics",
          [](const Store& store, const std::string& field, bool per_pixel) {
            const std::size_t index = store.field(field);
            const Statistics s = waiting([&] { return statistics_of(store, index, per_pixel); });
            return std::pair(s.mean, s.deviation);
          },
          nb::arg("field"), nb::arg("per_pixel"));
  m.def(
      "open_store",
      [](const std::string& kind, const std::vector<std::string>& paths, std::int64_t classes,
         const InputLengths& shape, bool label, bool header, const std::string& separator, bool sparse,
         const std::vector<std::string>& datasets, const std::optional<Side>& window) {
        const StoreOptions options{.kind = kind,
                                   .paths = paths,
                                   .classes = classes,
                                   .shape = shape,
                                   .label = label,
                                   .header = header,
                                   .separator = separator_of(separator),
                                   .sparse = sparse,
                                   .datasets = datasets,
                                   .window = window_of(window)};
        return waiting([&] { return std::shared_ptr<Store>(open_store(options)); });
      },
      nb::arg("kind"), nb::arg("paths"), nb::arg("classes"), nb::arg("shape"), nb::arg("label"), nb::arg("header"),
      nb::arg("separator"), nb::arg("sparse"), nb::arg("datasets"), nb::arg("window").none());
  m.def(
      "open_dataset",
      [](const std::string& name, const std::string& part, const std::string& folder,
         const std::optional<Side>& window) {
        const DatasetOptions options{.name = name, .part = part, .folder = folder, .window = window_of(window)};
        return waiting([&] { return std::shared_ptr<Store>(open_dataset(options)); });
      },
      nb::arg("name"), nb::arg("part"), nb::arg("folder"), nb::arg("window").none());
  m.def(
      "write_store",
      [](const std::string& kind, const std::vector<std::string>& paths, const Dense& data, const std::string& type,
         const std::optional<std::vector<std::int32_t>>& labels, const std::string& separator, int digits,
         const std::vector<std::string>& class_names) {
        WriterOptions options{.kind = kind,
                              .paths = paths,
                              .data = {.name = "data", .type = type_named(type), .shape = {}},
                              .label = labels.has_value(),
                              .separator = separator_of(separator),
                              .key_digits = digits,
                              .class_names = class_names};
        for (std::size_t d = 1; d < data.ndim(); ++d) options.data.shape.push_back(data.shape(d));
        const std::size_t count = data.ndim() == 0 ? 0 : data.shape(0);
        if (labels && labels->size() != count) {
          throw InvalidArgument(fmt::format("labels: expected {}, one per record; received {}", count, labels->size()));
        }
        waiting([&] {
          const auto writer = create_store(options);
          const std::size_t each = options.data.bytes();
          const auto* const bytes = static_cast<const std::byte*>(data.data());
          for (std::size_t i = 0; i < count; ++i) writer->write({bytes + i * each, each}, labels ? (*labels)[i] : 0);
          writer->commit();
        });
      },
      nb::arg("kind"), nb::arg("paths"), nb::arg("data"), nb::arg("type"), nb::arg("labels").none(),
      nb::arg("separator"), nb::arg("digits"), nb::arg("class_names"),
      nb::sig("def write_store(kind: str, paths: collections.abc.Sequence[str], data: "
              "numpy.typing.NDArray[typing.Any], type: str, labels: collections.abc.Sequence[int] | None, separator: "
              "str, digits: int, class_names: collections.abc.Sequence[str]) -> None"));
}

void bind_store_samples(nb::module_& m) {
  m.def(
      "store_samples",
      [](std::shared_ptr<Store> store, const std::vector<std::pair<std::string, std::string>>& inputs, bool shuffle,
         std::uint64_t seed, int threads, int depth, const std::vector<float>& mean,
         const std::vector<float>& deviation, double scale, std::int64_t pad, std::int64_t crop_height,
         std::int64_t crop_width, bool random_crop, bool mirror) {
        StoreSamplesOptions options{
            .inputs = inputs, .shuffle = shuffle, .seed = seed, .threads = threads, .depth = depth};
        options.transform = {.mean = mean,
                             .deviation = deviation,
                             .scale = scale,
                             .pad = pad,
                             .crop_height = crop_height,
                             .crop_width = crop_width,
                             .random_crop = random_crop,
                             .mirror = mirror};
        return store_samples(std::move(store), std::move(options)).release();
      },
      nb::rv_policy::take_ownership, nb::arg("store"), nb::arg("inputs"), nb::arg("shuffle"), nb::arg("seed"),
      nb::arg("threads"), nb::arg("depth"), nb::arg("mean"), nb::arg("deviation"), nb::arg("scale"), nb::arg("pad"),
      nb::arg("crop_height"), nb::arg("crop_width"), nb::arg("random_crop"), nb::arg("mirror"));
  m.def(
      "read_mean",
      [](const std::string& path) {
        const Record mean = waiting([&] { return read_mean(path); });
        return std::pair(mean.shape, mean.data);
      },
      nb::arg("path"));
}

void bind_events(nb::module_& m) {
  nb::class_<EventLog>(m, "EventLog")
      .def(nb::init<const std::string&>(), nb::arg("folder"))
      .def_prop_ro("path", &EventLog::path)
      .def("scalar", &EventLog::scalar, nb::arg("tag"), nb::arg("step"), nb::arg("value"))
      .def(
          "histogram",
          [](EventLog& log, const std::string& tag, std::int64_t step,
             const nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>& values) {
            log.histogram(tag, step, {values.data(), values.size()});
          },
          nb::arg("tag"), nb::arg("step"), nb::arg("values"),
          nb::sig("def histogram(self, tag: str, step: int, values: numpy.typing.NDArray[typing.Any]) -> None"))
      .def(
          "pictures",
          [](EventLog& log, const std::string& tag, std::int64_t step, nb::handle numbers) {
            return log_pictures(log, tag, tensor_of(numbers, tag), step);
          },
          nb::arg("tag"), nb::arg("step"), nb::arg("numbers"),
          nb::sig("def pictures(self, tag: str, step: int, numbers: numpy.typing.NDArray[typing.Any]) -> bool"))
      .def(
          "parameters", [](EventLog& log, const nn::Net& net, std::int64_t step) { log_parameters(log, net, step); },
          nb::arg("net"), nb::arg("step"))
      .def("flush", &EventLog::flush);
}

}  // namespace

void bind_data(nb::module_& m) {
  bind_stores(m);
  bind_store_samples(m);
  bind_events(m);
}

}  // namespace pleiad::python
