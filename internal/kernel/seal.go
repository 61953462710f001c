package kernel

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
)

// A module in the cache has a seal beside it: the hash of its bytes. A module that a full disk or a crash of the host cut
// short would else be loaded for ever, and the loader touches pages that such a file does not have.

func sealOf(module string) string { return module + ".sha256" }

// seal writes the seal of the module at `made`, which is about to become `out`. A reader between the two steps sees a
// seal that does not fit, and waits for the lock.
func seal(made, out string) error {
	data, err := os.ReadFile(made)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	fresh := filepath.Join(filepath.Dir(made), "seal")
	if err := os.WriteFile(fresh, []byte(hex.EncodeToString(sum[:])), 0o644); err != nil {
		return err
	}
	return os.Rename(fresh, sealOf(out))
}

// intact reports whether out is there and is what was sealed.
func intact(out string) bool {
	want, err := os.ReadFile(sealOf(out))
	if err != nil {
		return false
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]) == string(want)
}
