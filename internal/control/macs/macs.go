// Package macs gives MAC addresses to new NICs. No two VMs get the same address.
package macs

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quantix/db"
	"quantix/internal/fleet"
	"quantix/internal/policy"
)

// Prefix is the prefix of the MAC addresses that new NICs get, such as 52:54:00:12. Empty: the prefix of QEMU.
type Prefix string

const qemuPrefix = "52:54:00"

// Assign assigns a free address to each NIC without one, and refuses new addresses that another VM has. Actors who
// may not change infrastructure may only choose addresses from the project's own range. Otherwise a refusal would
// reveal addresses of other projects' VMs.
func (p Prefix) Assign(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VMView, nics []fleet.NIC) error {
	p = cmp.Or(p, qemuPrefix)
	chosen, added := map[string]bool{}, map[string]int{}
	var checks fleet.Checks
	for i, n := range nics {
		if chosen[n.MAC] && n.MAC != "" {
			checks.Add(fmt.Sprintf("spec.nics[%d].mac", i), "Another NIC of this VM has the same address.")
		}
		chosen[n.MAC] = true
		if n.MAC != "" && !slices.ContainsFunc(vm.Spec.NICs, func(o fleet.NIC) bool { return o.MAC == n.MAC }) {
			added[n.MAC] = i
			checkMAC(&checks, a, vm.ProjectID, i, n.MAC)
		}
	}
	if err := checks.Err(); err != nil {
		return err
	}
	macs := slices.Collect(maps.Keys(added))
	if err := q.LockMACs(ctx, macs); err != nil {
		return err
	}
	taken, err := q.MACsOfOthers(ctx, db.MACsOfOthersParams{Macs: macs, VMID: vm.ID})
	if err != nil {
		return err
	}
	for _, t := range taken {
		field := fmt.Sprintf("spec.nics[%d].mac", added[t.Mac])
		if t.Name != "" && policy.May(a, policy.InfraSee, "") {
			checks.Add(field, "%s on %s, which Quantix did not create, has this address already. Leave the address out to get a free one.", t.Name, t.HostName)
		} else {
			checks.Add(field, "Another VM has this address already. Leave the address out to get a free one.")
		}
	}
	if err := checks.Err(); err != nil {
		return err
	}
	for i := range nics {
		if nics[i].MAC != "" {
			continue
		}
		if nics[i].MAC, err = p.findFreeMAC(ctx, q, vm.ID, chosen); err != nil {
			return err
		}
		chosen[nics[i].MAC] = true
	}
	return nil
}

// checkMAC records an error if the chosen address of NIC i is outside the project's range and the actor may not change
// infrastructure.
func checkMAC(c *fleet.Checks, a fleet.Actor, project fleet.ProjectID, i int, mac string) {
	if own := fleet.ProjectMACPrefix(project); !strings.HasPrefix(mac, own) && !policy.May(a, policy.InfraChange, "") {
		c.Add(fmt.Sprintf("spec.nics[%d].mac", i), "MAC addresses chosen in this project must begin with %s. Leave the address out to get a free one.", own)
	}
}

// findFreeMAC tries macBatchSize addresses at a time, from a random start, and at most maxMACTries addresses. These are
// all addresses with a prefix of four or five bytes.
const (
	macBatchSize = 256
	maxMACTries  = 1 << 16
)

// findFreeMAC returns an address with the prefix that no VM has. With a long prefix, which has few addresses, it
// reserves the address until the transaction ends. With a short prefix collisions are rare, and the unique index
// refuses the second VM.
func (p Prefix) findFreeMAC(ctx context.Context, q *db.Queries, vm fleet.VMID, chosen map[string]bool) (string, error) {
	size := uint32(1) << (8 * (6 - len(strings.Split(string(p), ":"))))
	var start [4]byte
	rand.Read(start[:])
	at := binary.BigEndian.Uint32(start[:])
	for range min(size, maxMACTries) / macBatchSize {
		macs := make([]string, macBatchSize)
		for i := range macs {
			macs[i] = p.formatMAC(at % size)
			at++
		}
		taken, err := q.MACsOfOthers(ctx, db.MACsOfOthersParams{Macs: macs, VMID: vm})
		if err != nil {
			return "", err
		}
		for _, mac := range macs {
			if chosen[mac] || slices.ContainsFunc(taken, func(t db.MACsOfOthersRow) bool { return t.Mac == mac }) {
				continue
			}
			mine, err := size > maxMACTries, error(nil)
			if !mine {
				mine, err = reserveMAC(ctx, q, vm, mac)
			}
			if err != nil || mine {
				return mac, err
			}
		}
	}
	return "", fleet.Errorf(fleet.Conflict, "No MAC address that begins with %s is free for a new NIC. An administrator can give the portal another macPrefix.", p)
}

// reserveMAC reserves an address for a VM until the transaction ends. It returns false if another VM has or reserves
// it.
func reserveMAC(ctx context.Context, q *db.Queries, vm fleet.VMID, mac string) (bool, error) {
	if mine, err := q.TryMAC(ctx, mac); err != nil || !mine {
		return false, err
	}
	taken, err := q.MACsOfOthers(ctx, db.MACsOfOthersParams{Macs: []string{mac}, VMID: vm})
	return len(taken) == 0, err
}

// formatMAC returns the n-th address with the prefix.
func (p Prefix) formatMAC(n uint32) string {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], n)
	out := string(p)
	for _, x := range b[4-(6-len(strings.Split(out, ":"))):] {
		out += fmt.Sprintf(":%02x", x)
	}
	return out
}
