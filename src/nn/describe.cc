// Prints a net as a table (describe) and as a Graphviz graph (dot).
#include <fmt/format.h>

#include <algorithm>

#include "core/text.h"
#include "nn/net_impl.h"

namespace pleiad::nn {
namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string with_unit(double number) {
  const char* const units[] = {"", " K", " M", " G", " T"};
  std::size_t unit = 0;
  while (number >= 1000 && unit + 1 < std::size(units)) {
    number /= 1000;
    ++unit;
  }
  return fmt::format("{:.4g}{}", number, units[unit]);
}

}  // namespace

std::string Net::describe() const {
  const Impl& in = *impl_;
  std::string out = fmt::format("net \"{}\", {}{}\n", in.options.name, name_of(in.options.dtype),
                                in.batch == 0 ? "" : fmt::format(", batch {}", in.batch));
  const char* const row = "  {:<18} {:<30} {:<22} {:>12} {:>10}  {}\n";
  out += fmt::format(fmt::runtime(row), "name", "kind", "output", "parameters", "products", "from");
  double products = 0;
  std::int64_t numbers = 0;
  for (const Value& value : in.values) {
    if (value.producer >= 0) continue;
    out += fmt::format(fmt::runtime(row), value.name, fmt::format("input, {}", name_of(value.dtype)),
                       value.sample.text(), "", "", "");
  }
  for (const Node& node : in.nodes) {
    std::int64_t own = 0;
    for (const int p : node.parameters) {
      const Parameter& parameter = in.parameters[static_cast<std::size_t>(p)];
      if (parameter.name.starts_with(node.name + "/")) own += parameter.value.count();
    }
    const double work = node.layer->products(in.input_shapes(node));
    const std::int64_t rows = in.values[static_cast<std::size_t>(node.inputs[0])].data.shape()[0];
    std::vector<std::string> from;
    for (const int id : node.inputs) from.push_back(in.values[static_cast<std::size_t>(id)].name);
    const Shape& shape = in.values[static_cast<std::size_t>(node.outputs[0])].data.shape();
    const std::string summary = node.layer->summary();
    out += fmt::format(fmt::runtime(row), node.name,
                       summary.empty() ? node.layer->kind() : node.layer->kind() + ", " + summary,
                       node.scores.empty() ? shape.sample().text() : join(node.scores), own == 0 ? "" : grouped(own),
                       work == 0 ? "" : with_unit(work / static_cast<double>(rows)), join(from));
    products += work / static_cast<double>(rows);
    numbers += own;
  }
  out += fmt::format("  {} parameters ({}), {} products a sample forward\n", grouped(numbers),
                     byte_size(static_cast<std::uint64_t>(numbers) * size_of(in.options.dtype)), with_unit(products));
  if (in.batch > 0) {
    out += fmt::format("  memory: activations {}, their gradients {}\n", byte_size(in.activation_bytes),
                       byte_size(in.gradient_bytes));
  }
  return out;
}

std::string NetGraph::dot() const {
  const Net::Impl& in = *net_->impl_;
  std::string out =
      fmt::format("digraph {} {{\n  rankdir=BT;\n  node [shape=box, fontname=\"sans\"];\n", quoted(in.options.name));
  for (const Value& value : in.values) {
    if (value.producer < 0) {
      out += fmt::format("  {} [shape=ellipse, label={}];\n", quoted(value.name),
                         quoted(value.name + " " + value.sample.text()));
    }
  }
  for (const Node& node : in.nodes) {
    const Shape& shape = in.values[static_cast<std::size_t>(node.outputs[0])].data.shape();
    out += fmt::format("  {} [label={}];\n", quoted(node.name),
                       quoted(fmt::format("{}: {} {}", node.name, node.layer->kind(), shape.sample().text())));
    for (const int id : node.inputs) {
      const Value& value = in.values[static_cast<std::size_t>(id)];
      const std::string from =
          value.producer < 0 ? value.name : in.nodes[static_cast<std::size_t>(value.producer)].name;
      out += fmt::format("  {} -> {};\n", quoted(from), quoted(node.name));
    }
    for (const int p : node.parameters) {
      const std::string& name = in.parameters[static_cast<std::size_t>(p)].name;
      if (!name.starts_with(node.name + "/")) {
        out += fmt::format("  {} -> {} [style=dashed, label={}];\n", quoted(name.substr(0, name.find('/'))),
                           quoted(node.name), quoted(name));
      }
    }
  }
  return out + "}\n";
}

}  // namespace pleiad::nn
