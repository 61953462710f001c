#include "wire_message.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace pgas::softhca {

bool send_message(int fd, Message m, const std::vector<int>& fds) {
    m.magic = message_magic;
    m.version = message_version;
    iovec iov = {&m, sizeof m};
    alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {};
    msghdr h = {};
    h.msg_iov = &iov;
    h.msg_iovlen = 1;
    if (!fds.empty()) {
        h.msg_control = control;
        h.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
        cmsghdr* c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
        std::memcpy(CMSG_DATA(c), fds.data(), fds.size() * sizeof(int));
    }
    return sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof m);
}

int receive_message(int fd, Message* m, std::vector<int>* fds) {
    iovec iov = {m, sizeof *m};
    alignas(cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))];
    msghdr h = {};
    h.msg_iov = &iov;
    h.msg_iovlen = 1;
    h.msg_control = control;
    h.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(fd, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
    fds->clear();
    for (cmsghdr* c = CMSG_FIRSTHDR(&h); c != nullptr; c = CMSG_NXTHDR(&h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        const size_t had = fds->size();
        fds->resize(had + count);
        std::memcpy(fds->data() + had, CMSG_DATA(c), count * sizeof(int));
    }
    if (n == static_cast<ssize_t>(sizeof *m) && m->magic == message_magic && m->version == message_version) return 1;
    for (int d : *fds) close(d);
    fds->clear();
    return -1;
}

int await_message(int fd, int timeout_ms, Message* m, std::vector<int>* fds) {
    pollfd p = {fd, POLLIN, 0};
    const int n = poll(&p, 1, timeout_ms);
    if (n <= 0) return 0;
    return receive_message(fd, m, fds);
}

bool same_user(int fd) {
    ucred cred = {};
    socklen_t len = sizeof cred;
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.uid == geteuid();
}

}  // namespace pgas::softhca
