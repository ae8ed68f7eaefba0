// Package fleet defines the types of Quantix: virtual machines, hosts, pools, networks, projects, users, jobs, their
// states, the actions that states allow, and errors. It imports only the standard library. Every other package uses its
// types.
package fleet

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"time"
)

// Identifiers are UUIDs in lower-case text form. Each resource type has its own ID type, so that the compiler catches a
// mix-up. A VMID is also the libvirt domain's UUID. The ID types of other resource types are declared beside them.
type (
	VMID        string
	HostID      string
	PoolID      string
	NetworkID   string
	ProjectID   string
	UserID      string
	TaskID      string
	JobID       string
	TokenID     string
	JoinTokenID string
	PairID      string
	ViewID      string
	PlanID      string
	ExportID    string

	SecurityGroupID string
	DeviceClassID   string

	ImageID        string
	ImageVersionID string
	StartImageID   string

	TemplateID        string
	TemplateVersionID string
)

// lastID orders the IDs that this process creates within one millisecond.
var lastID struct {
	mu   sync.Mutex
	last uint64 // milliseconds since 1970, shifted left by 12 bits, with a counter within the millisecond in the low bits
}

// NewID returns a version 7 UUID, ordered by creation time and, within one process, strictly increasing.
func NewID[T ~string]() T {
	var b [16]byte
	rand.Read(b[:])
	lastID.mu.Lock()
	lastID.last = max(lastID.last+1, uint64(time.Now().UnixMilli())<<12)
	at := lastID.last
	lastID.mu.Unlock()
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], at>>12)
	copy(b[:6], ms[2:])
	b[6] = byte(at>>8)&0x0f | 0x70
	b[7] = byte(at)
	b[8] = b[8]&0x3f | 0x80
	var out [36]byte
	hex.Encode(out[0:8], b[0:4])
	hex.Encode(out[9:13], b[4:6])
	hex.Encode(out[14:18], b[6:8])
	hex.Encode(out[19:23], b[8:10])
	hex.Encode(out[24:36], b[10:16])
	out[8], out[13], out[18], out[23] = '-', '-', '-', '-'
	return T(out[:])
}

// IsID reports whether s is an identifier: a UUID of any version in lower-case text form.
func IsID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if c != '-' {
				return false
			}
		case (c < '0' || c > '9') && (c < 'a' || c > 'f'):
			return false
		}
	}
	return true
}

// ProjectMACPrefix returns the prefix of the MAC addresses that a project may choose. It is locally administered and
// derived from the ID: two projects share it with a probability of one in 16 million.
func ProjectMACPrefix(id ProjectID) string {
	sum := sha256.Sum256([]byte(id))
	return fmt.Sprintf("02:%02x:%02x:%02x:", sum[0], sum[1], sum[2])
}
