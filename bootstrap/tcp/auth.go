package tcp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
)

// Handshake payloads are JSON, so that versions can read each other's. Neither side shows the key: each proves that it
// knows it by a MAC over both nonces and everything it says.

type challenge struct {
	Version uint16 `json:"version"`
	Job     string `json:"job"`
	Nonce   []byte `json:"nonce"`
}

type hello struct {
	Version     uint16 `json:"version"`
	Job         string `json:"job"`
	Rank        int    `json:"rank"`
	Size        int    `json:"size"`
	PID         int    `json:"pid"`
	RemainingMS int64  `json:"remaining_ms"` // until this PE's start-up deadline
	Nonce       []byte `json:"nonce"`
	MAC         []byte `json:"mac"`
}

type welcome struct {
	MAC []byte `json:"mac"`
}

// reject tells a process that it may not take part. The job goes on.
type reject struct {
	Why  string `json:"why"`  // one of the why constants
	Text string `json:"text"` // for people
}

const (
	whyKey   = "key"   // the MAC is wrong
	whyTaken = "taken" // the job runs and needs nobody
	whyRetry = "retry" // this job is about to end; a new one may start at the same address
	whyBad   = "bad"   // not understood
)

const nonceBytes = 16

func newNonce() []byte {
	n := make([]byte, nonceBytes)
	rand.Read(n) // never fails: package crypto/rand ends the program instead
	return n
}

// jobHash marks the frames of a job.
func jobHash(job string) uint64 {
	sum := sha256.Sum256([]byte(job))
	return binary.BigEndian.Uint64(sum[:])
}

// mac joins the parts unambiguously, each with its length in front.
func mac(key []byte, parts ...any) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		b, ok := p.([]byte)
		if !ok {
			b = fmt.Append(nil, p)
		}
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		h.Write(n[:])
		h.Write(b)
	}
	return h.Sum(nil)
}

func (h *hello) mac(key, hubNonce []byte) []byte {
	return mac(key, "pe", hubNonce, h.Nonce, h.Version, h.Job, h.Rank, h.Size, h.PID, h.RemainingMS)
}

func (h *hello) welcomeMAC(key, hubNonce []byte) []byte {
	return mac(key, "hub", hubNonce, h.Nonce, h.Job, h.Rank)
}

func (h *hello) genuine(key, hubNonce []byte) bool {
	return len(h.Nonce) == nonceBytes && hmac.Equal(h.MAC, h.mac(key, hubNonce))
}

// decodeHandshake reads a JSON payload of the wanted kind.
func decodeHandshake(f *frame, want kind, into any) error {
	if f.kind != want {
		return fmt.Errorf("frame of kind %d in place of %d", f.kind, want)
	}
	if err := json.Unmarshal(f.payload, into); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	return nil
}

func handshakeFrame(k kind, job uint64, payload any) *frame {
	b, err := json.Marshal(payload)
	if err != nil {
		panic(err) // strings, numbers and byte slices always marshal
	}
	return &frame{version: frameVersion, kind: k, job: job, payload: b}
}

// welcomed checks the hub's proof.
func (h *hello) welcomed(key, hubNonce, proof []byte) bool {
	return hmac.Equal(proof, h.welcomeMAC(key, hubNonce))
}
