#include "config.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

namespace pgas::softhca {
namespace {

std::vector<std::string> split(const std::string& s, char sep) {
    std::vector<std::string> out;
    size_t from = 0;
    for (;;) {
        const size_t to = s.find(sep, from);
        out.push_back(s.substr(from, to == std::string::npos ? to : to - from));
        if (to == std::string::npos) return out;
        from = to + 1;
    }
}

struct ParseError {
    std::string text;
};

uint64_t number(const std::string& s, uint64_t min, uint64_t max) {
    char* end = nullptr;
    errno = 0;
    const unsigned long long v = std::strtoull(s.c_str(), &end, 0);
    if (s.empty() || s[0] == '-' || s[0] == '+' || s[0] == ' ' || *end != 0 || errno != 0 || v < min || v > max) {
        throw ParseError{"\"" + s + "\" is no number from " + std::to_string(min) + " to " + std::to_string(max)};
    }
    return v;
}

uint64_t byte_count(const std::string& s) {
    if (s.empty()) throw ParseError{"empty size"};
    const std::string units = "KMGT";
    const size_t unit = units.find(s.back());
    if (unit == std::string::npos) return number(s, 1, UINT64_MAX);
    return number(s.substr(0, s.size() - 1), 1, UINT64_MAX >> 40) << (10 * (unit + 1));
}

bool flag(const std::string& s) { return number(s, 0, 1) == 1; }

template <typename T>
T choice(const std::string& s, const std::map<std::string, T>& choices) {
    auto it = choices.find(s);
    if (it != choices.end()) return it->second;
    std::string all;
    for (const auto& c : choices) all += (all.empty() ? "" : "|") + c.first;
    throw ParseError{"\"" + s + "\" is not one of " + all};
}

const char* const functions[] = {"get_device_list",
                                 "open",
                                 "alloc_pd",
                                 "query_port",
                                 "query_gid",
                                 "reg_mr",
                                 "reg_dmabuf_mr",
                                 "umem_reg",
                                 "alloc_uar",
                                 "query_eqn",
                                 "create_cq",
                                 "create_qp",
                                 "create_mkey",
                                 "modify_cq",
                                 "rst2init",
                                 "init2init",
                                 "init2rtr",
                                 "rtr2rts",
                                 "rts2rts",
                                 "sqerr2rts",
                                 "2err",
                                 "2rst",
                                 "query_qp",
                                 "query_cq",
                                 "query_hca_cap",
                                 "query_roce_address",
                                 "query_hca_vport_context"};
constexpr size_t first_command = 10;  // earlier ones are no firmware commands and have no status

void parse_fail(Config& c, const std::string& value) {
    const auto parts = split(value, ':');
    if (parts.size() < 3) throw ParseError{"\"" + value + "\" is not function:n:status=S or function:n:errno=E"};
    auto rule = std::make_unique<FailRule>();
    rule->function = parts[0];
    size_t index = 0;
    while (index < std::size(functions) && parts[0] != functions[index]) index++;
    if (index == std::size(functions)) throw ParseError{"no function \"" + parts[0] + "\""};
    rule->and_later = !parts[1].empty() && parts[1].back() == '+';
    rule->nth = number(rule->and_later ? parts[1].substr(0, parts[1].size() - 1) : parts[1], 1, UINT64_MAX);
    if (parts.size() == 3 && parts[2].rfind("status=", 0) == 0 && index >= first_command) {
        rule->status = static_cast<uint8_t>(number(parts[2].substr(7), 1, 255));
    } else if (parts.size() == 3 && parts[2].rfind("errno=", 0) == 0) {
        rule->error = static_cast<int>(number(parts[2].substr(6), 1, 4095));
    } else {
        throw ParseError{"\"" + value + "\": only commands have a status, everything has an errno"};
    }
    c.fail.push_back(std::move(rule));
}

std::vector<GidKind> parse_gids(const std::string& value) {
    static const std::map<std::string, GidKind> kinds = {
        {"-", GidKind::hole},      {"ll1", GidKind::link_local_v1}, {"ll2", GidKind::link_local_v2},
        {"ip1", GidKind::ipv4_v1}, {"ip2", GidKind::ipv4_v2},       {"ib", GidKind::ib}};
    std::vector<GidKind> out;
    for (const auto& g : split(value, '/')) out.push_back(choice(g, kinds));
    if (out.size() > 256) throw ParseError{"more than 256 GID entries"};
    return out;
}

void parse_device(DeviceConfig& d, const std::string& key, const std::string& value) {
    if (key == "name") {
        if (value.empty() || value.size() > 63) throw ParseError{"a device name has 1 to 63 characters"};
        d.name = value;
    } else if (key == "link") {
        d.infiniband = choice<bool>(value, {{"eth", false}, {"ib", true}});
    } else if (key == "lid") {
        d.lid = static_cast<uint16_t>(number(value, 1, 0xbfff));
    } else if (key == "vendor") {
        d.mlx5 = choice<bool>(value, {{"mlx5", true}, {"other", false}});
    } else if (key == "open_errno") {
        d.open_errno = static_cast<int>(number(value, 0, 4095));
    } else if (key == "mtu") {
        d.active_mtu = choice<uint8_t>(value, {{"256", 1}, {"512", 2}, {"1024", 3}, {"2048", 4}, {"4096", 5}});
    } else if (key == "gids") {
        d.gids = parse_gids(value);
    } else {
        throw ParseError{"no device key \"" + key + "\""};
    }
}

void parse_error_wqe(Config& c, const std::string& value) {
    const auto parts = split(value, ':');
    if (parts.size() != 2) throw ParseError{"\"" + value + "\" is not n:syndrome"};
    c.error_wqe = number(parts[0], 1, UINT64_MAX);
    c.error_syndrome = static_cast<uint8_t>(number(parts[1], 1, 255));
}

void parse_drop(Config& c, const std::string& value) {
    const auto parts = split(value, ':');
    if (parts.size() > 2) throw ParseError{"\"" + value + "\" is not n or n:count"};
    c.drop_request = number(parts[0], 1, UINT64_MAX);
    if (parts.size() == 2) c.drop_count = number(parts[1], 1, UINT64_MAX);
}

void parse_no_uar(Config& c, const std::string& value) {
    for (const auto& t : split(value, '+')) {
        c.no_uar |= choice<uint32_t>(t, {{"bf", 1}, {"nc", 2}, {"nc_dedicated", 4}});
    }
}

using Setter = std::function<void(Config&, const std::string&)>;

const std::map<std::string, Setter>& setters() {
    static const auto* table = new std::map<std::string, Setter>{
        {"mode",
         [](Config& c, const std::string& v) {
             c.mode =
                 choice<Mode>(v, {{"inline", Mode::inline_mode}, {"thread", Mode::thread}, {"chaos", Mode::chaos}});
         }},
        {"seed", [](Config& c, const std::string& v) { c.seed = number(v, 0, UINT64_MAX); }},
        {"devices", [](Config& c, const std::string& v) { c.devices.resize(number(v, 0, 64)); }},
        {"time_scale",
         [](Config& c, const std::string& v) { c.time_scale = static_cast<double>(number(v, 1, 1000000)); }},
        {"delay_us",
         [](Config& c, const std::string& v) { c.delay_us = static_cast<uint32_t>(number(v, 0, 10000000)); }},
        {"chaos_delay_us",
         [](Config& c, const std::string& v) { c.chaos_delay_us = static_cast<uint32_t>(number(v, 0, 1000000)); }},
        {"chaos_split",
         [](Config& c, const std::string& v) { c.chaos_split = static_cast<uint32_t>(number(v, 1, 64)); }},
        {"chaos_drop_doorbells", [](Config& c, const std::string& v) { c.chaos_drop_doorbells = flag(v); }},
        {"max_qp", [](Config& c, const std::string& v) { c.max_qp = static_cast<uint32_t>(number(v, 1, 1 << 14)); }},
        {"log_max_msg",
         [](Config& c, const std::string& v) { c.log_max_msg = static_cast<uint32_t>(number(v, 0, 30)); }},
        {"log_max_qp_sz",
         [](Config& c, const std::string& v) { c.log_max_qp_sz = static_cast<uint32_t>(number(v, 0, 15)); }},
        {"log_max_cq_sz",
         [](Config& c, const std::string& v) { c.log_max_cq_sz = static_cast<uint32_t>(number(v, 0, 24)); }},
        {"pinned_limit", [](Config& c, const std::string& v) { c.pinned_limit = byte_count(v); }},
        {"no_dmabuf", [](Config& c, const std::string& v) { c.no_dmabuf = flag(v); }},
        {"no_atomics", [](Config& c, const std::string& v) { c.no_atomics = flag(v); }},
        {"no_zero_write", [](Config& c, const std::string& v) { c.no_zero_write = flag(v); }},
        {"no_uar", parse_no_uar},
        {"error_wqe", parse_error_wqe},
        {"drop", parse_drop},
        {"port_down", [](Config& c, const std::string& v) { c.port_down = number(v, 1, UINT64_MAX); }},
        {"fail", parse_fail},
    };
    return *table;
}

void parse_pair(Config& c, const std::string& key, const std::string& value) {
    auto it = setters().find(key);
    if (it != setters().end()) return it->second(c, value);
    const size_t dot = key.find('.');
    if (key.rfind("dev", 0) != 0 || dot == std::string::npos) throw ParseError{"no such key"};
    const uint64_t index = number(key.substr(3, dot - 3), 0, 63);
    if (index >= c.devices.size()) {
        throw ParseError{"there are " + std::to_string(c.devices.size()) + " devices [put devices=N before it]"};
    }
    parse_device(c.devices[index], key.substr(dot + 1), value);
}

}  // namespace

std::shared_ptr<Config> parse_config(const std::string& spec, std::string* err) {
    auto c = std::make_shared<Config>();
    c->devices.resize(1);
    std::string pair;
    try {
        if (!spec.empty()) {
            for (const std::string& p : split(spec, ',')) {
                pair = p;
                const size_t eq = p.find('=');
                if (eq == std::string::npos) throw ParseError{"not key=value"};
                parse_pair(*c, p.substr(0, eq), p.substr(eq + 1));
            }
        }
        for (size_t i = 0; i < c->devices.size(); i++) {
            if (c->devices[i].name.empty()) c->devices[i].name = "mlx5_" + std::to_string(i);
            for (size_t j = 0; j < i; j++) {
                pair = c->devices[i].name;
                if (c->devices[j].name == pair) throw ParseError{"two devices of this name"};
            }
        }
    } catch (const ParseError& e) {
        *err = "softhca configuration: " + pair + ": " + e.text;
        return nullptr;
    }
    return c;
}

Failure next_failure(Config& config, const char* function) {
    Failure out;
    for (auto& rule : config.fail) {
        if (rule->function != function) continue;
        const uint64_t n = rule->calls.fetch_add(1) + 1;
        if (n == rule->nth || (rule->and_later && n > rule->nth)) out = {rule->error, rule->status};
    }
    return out;
}

}  // namespace pgas::softhca
