#include "wire_shm.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>

#include "link_shm.h"
#include "machine.h"
#include "service.h"
#include "wire_message.h"

namespace pgas::softhca {
namespace {

socklen_t fill_address(const Address& a, sockaddr_un* out) {
    *out = {};
    out->sun_family = AF_UNIX;
    const std::string name = a.socket_name();
    std::memcpy(out->sun_path + 1, name.data(), name.size());
    return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

void close_all(const std::vector<int>& fds) {
    for (int fd : fds) close(fd);
}

// Maps what a welcome brought: shared state, wake-up, and a bell if there is one.
std::shared_ptr<ShmLink> build_link(Hca& hca, const Address& to, int socket, const Message& m, std::vector<int>& fds) {
    const size_t want = m.has_bell ? 3 : 2;
    if (m.type != MessageType::welcome || fds.size() != want) return nullptr;
    void* state = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    if (state == MAP_FAILED) return nullptr;
    auto mapping = std::make_shared<SharedMapping>();
    mapping->state = static_cast<Shared*>(state);
    if (mapping->state->magic.load(std::memory_order_acquire) != shared_magic) return nullptr;
    Bell* bell = nullptr;
    if (m.has_bell) {
        void* p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[2], 0);
        if (p != MAP_FAILED) bell = static_cast<Bell*>(p);
    }
    const int kick = fds[1];
    fds[1] = fds.back();
    fds.pop_back();
    return std::make_shared<ShmLink>(hca, std::move(mapping), m.client, to, socket, kick, bell);
}

}  // namespace

std::string Address::socket_name() const {
    char name[64];
    if (by_lid) {
        std::snprintf(name, sizeof name, "pgas-softhca/lid/%u", lid);
        return name;
    }
    std::string out = "pgas-softhca/gid/";
    for (uint8_t b : gid) {
        std::snprintf(name, sizeof name, "%02x", b);
        out += name;
    }
    return out;
}

uint64_t Address::hi() const { return by_lid ? ~0ull : load_be64(gid); }
uint64_t Address::lo() const { return by_lid ? lid : load_be64(gid + 8); }

ShmWire::~ShmWire() {
    close_all(listeners_);
    for (auto& c : clients_) close(c.first);
}

int ShmWire::listen(const std::vector<Address>& addresses) {
    for (const Address& a : addresses) {
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0) return errno;
        sockaddr_un un;
        const socklen_t len = fill_address(a, &un);
        if (bind(fd, reinterpret_cast<sockaddr*>(&un), len) != 0 || ::listen(fd, 128) != 0) {
            const int e = errno;
            close(fd);
            close_all(listeners_);
            listeners_.clear();
            return e;
        }
        listeners_.push_back(fd);
    }
    return 0;
}

std::shared_ptr<Link> ShmWire::connect(const Address& to, int timeout_ms) {
    if (auto local = machine().find_hca(to)) return std::make_shared<LocalLink>(hca_, local);
    {
        std::lock_guard<std::mutex> lock(mutex_);
        for (auto& l : links_) {
            if (l.second->address() == to && l.second->alive()) return l.second;
        }
    }
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return nullptr;
    sockaddr_un un;
    const socklen_t len = fill_address(to, &un);
    Message hello = {}, welcome = {};
    hello.type = MessageType::hello;
    std::vector<int> fds;
    std::shared_ptr<ShmLink> link;
    if (::connect(fd, reinterpret_cast<sockaddr*>(&un), len) == 0 && same_user(fd) && send_message(fd, hello, {}) &&
        await_message(fd, timeout_ms, &welcome, &fds) == 1) {
        link = build_link(hca_, to, fd, welcome, fds);
    }
    close_all(fds);
    if (link == nullptr) {
        close(fd);
        return nullptr;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    links_[fd] = link;
    hca_.service().kick();
    return link;
}

void ShmWire::broadcast_drop(uint64_t mem) {
    Message m = {};
    m.type = MessageType::drop_mem;
    m.mem = mem;
    std::lock_guard<std::mutex> lock(mutex_);
    // A peer whose socket is full keeps a mapping that it no longer uses; its close frees it.
    for (auto& c : clients_) send_message(c.first, m, {});
}

void ShmWire::add_descriptors(std::vector<pollfd>* fds) {
    std::lock_guard<std::mutex> lock(mutex_);
    for (int fd : listeners_) fds->push_back({fd, POLLIN, 0});
    for (auto& c : clients_) fds->push_back({c.first, POLLIN, 0});
    for (auto& l : links_) fds->push_back({l.first, POLLIN, 0});
}

void ShmWire::handle(const std::vector<pollfd>& fds) {
    for (const pollfd& p : fds) {
        if (p.revents == 0) continue;
        enum { none, listener, client, link } kind = none;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            for (int fd : listeners_) kind = fd == p.fd ? listener : kind;
            if (clients_.count(p.fd)) kind = client;
            if (links_.count(p.fd)) kind = link;
        }
        if (kind == listener) accept_client(p.fd);
        if (kind == link) serve_link(p.fd);
        if (kind != client || serve(p.fd)) continue;
        uint32_t number = 0;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            number = clients_[p.fd];
            clients_.erase(p.fd);
        }
        close(p.fd);
        hca_.forget_client(number);
    }
}

void ShmWire::accept_client(int listen_fd) {
    const int fd = accept4(listen_fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    if (!same_user(fd)) {
        close(fd);
        return;
    }
    std::lock_guard<std::mutex> lock(mutex_);
    clients_[fd] = next_client_++;
}

// Answers one client. False when it is gone.
bool ShmWire::serve(int fd) {
    Message m;
    std::vector<int> fds;
    const int got = receive_message(fd, &m, &fds);
    close_all(fds);
    if (got <= 0) return got == 0;
    Message reply = {};
    if (m.type == MessageType::hello) {
        reply.type = MessageType::welcome;
        {
            std::lock_guard<std::mutex> lock(mutex_);
            reply.client = clients_[fd];
        }
        std::vector<int> give = {hca_.shared_fd(), hca_.service().kick_fd()};
        if (hca_.bell_fd() >= 0) give.push_back(hca_.bell_fd());
        reply.has_bell = hca_.bell_fd() >= 0;
        return send_message(fd, reply, give);
    }
    if (m.type != MessageType::get_mem) return false;
    const std::shared_ptr<Mem> mem = hca_.mem(m.mem);
    reply.type = MessageType::mem;
    reply.mem = m.mem;
    if (mem == nullptr || mem->fd < 0) {
        reply.status = mem == nullptr ? ENOENT : EOPNOTSUPP;
        return send_message(fd, reply, {});
    }
    reply.length = mem->length;
    reply.offset = mem->fd_offset;
    return send_message(fd, reply, {mem->fd});
}

// Takes one message of a peer that we are a client of.
void ShmWire::serve_link(int fd) {
    std::shared_ptr<ShmLink> link;
    {
        std::lock_guard<std::mutex> lock(mutex_);
        link = links_[fd];
    }
    Message m;
    std::vector<int> fds;
    const int got = receive_message(fd, &m, &fds);
    if (got < 0) {
        link->die();
        std::lock_guard<std::mutex> lock(mutex_);
        links_.erase(fd);
    } else if (got > 0 && m.type == MessageType::mem) {
        link->add_mapping(m.mem, fds.empty() ? -1 : fds[0], m.length, m.offset, m.status);
    } else if (got > 0 && m.type == MessageType::drop_mem) {
        link->drop_mapping(m.mem);
    }
    close_all(fds);
    if (got != 0) hca_.wake_all();
}

}  // namespace pgas::softhca
