package bootstrap

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// SameUser checks the user at the other end of a Unix socket, as the kernel knows it. It returns an error unless that
// is this process's user or root.
func SameUser(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	read := func(fd uintptr) { cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }
	if err := raw.Control(read); err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if credErr != nil {
		return fmt.Errorf("peer credentials: %w", credErr)
	}
	if me := uint32(unix.Geteuid()); cred.Uid != me && cred.Uid != 0 {
		return fmt.Errorf("process %d of user %d, this process is of user %d", cred.Pid, cred.Uid, me)
	}
	return nil
}
