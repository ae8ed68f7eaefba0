//go:build linux && ordeal

package libvirt_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quantix/agent/hypervisor"
	"quantix/agent/hypervisor/conformance"
	"quantix/internal/fleet"
	"quantix/internal/testkit/tier"
)

// guestBytes returns possible first bytes of a raw disk: headers that name another file, corrupt headers, and random
// bytes.
func guestBytes(t *testing.T, names string, r *rand.Rand) map[string][]byte {
	t.Helper()
	decoy := filepath.Join(t.TempDir(), "lure")
	run(t, "qemu-img", "create", "-q", "-f", "qcow2", "-u", "-b", names, "-F", "qcow2", decoy, "1G")
	head := must(os.ReadFile(decoy))[:64<<10]
	with := func(at int, text []byte) []byte {
		out := bytes.Clone(head)
		copy(out[at:], text)
		return out
	}
	number := func(at int, n uint64) []byte { return with(at, binary.BigEndian.AppendUint64(nil, n)) }
	out := map[string][]byte{
		"qcow2":                  head,
		"qcow2 of another":       with(int(binary.BigEndian.Uint64(head[8:])), []byte("/etc/shadow")),
		"qcow2, odd name":        with(int(binary.BigEndian.Uint64(head[8:])), []byte("/a\n\x01\xff<&>")),
		"qcow2, name outside":    number(8, 1<<60),
		"qcow2, absurd size":     number(24, 1<<63),
		"qcow2, absurd features": number(72, ^uint64(0)),
		"qcow2, encrypted":       number(32, 2<<32),
		"qcow1":                  with(4, []byte{0, 0, 0, 1}),
		"cow":                    append([]byte("OOOM\x00\x00\x00\x02"+names+"\x00"), make([]byte, 4<<10)...),
		"cow of nothing":         append([]byte("OOOM\x00\x00\x00\x02/etc/shadow\xff\x01"), make([]byte, 4<<10)...),
		"qed":                    append([]byte("QED\x00"), bytes.Repeat([]byte{0xff}, 4<<10)...),
		"vmdk":                   append([]byte("KDMV\x01\x00\x00\x00"), make([]byte, 4<<10)...),
		"luks":                   append([]byte("LUKS\xba\xbe\x00\x01"), bytes.Repeat([]byte{0xff}, 4<<10)...),
		"disc":                   append(make([]byte, 0x8001), "CD001\x01"...),
	}
	for i := range 8 {
		text := bytes.Clone(head)
		for range 1 + r.IntN(16) {
			text[8+r.IntN(500)] = byte(r.Uint32())
		}
		out[fmt.Sprintf("qcow2, changed at random, %d", i)] = text
	}
	return out
}

// The first bytes of a raw disk never change the report on other VMs and volumes, nor the result of their jobs.
func TestRawDiskContentAffectsNoOtherVM(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	addImage(t, f.pool, conformance.Image{Name: "image", Kind: conformance.Qcow2, SizeBytes: 4 << 20})
	addImage(t, f.pool, conformance.Image{Name: "shared.img", Kind: conformance.Raw, SizeBytes: 4 << 20})
	other, vm := f.newVM(), f.newVM()
	other.Spec.Disks = []fleet.Disk{f.newDisk("other.qcow2")}
	vm.Spec.Disks = []fleet.Disk{
		{PoolID: f.pool.ID, Volume: "plain.raw", SizeBytes: 4 << 20, Format: fleet.Raw},
		{PoolID: f.pool.ID, Volume: "shared.img", Existing: true},
	}
	f.apply(other)
	f.apply(vm)
	f.requireNoError(f.CreateVolume(t.Context(), f.volumeJob("left.raw", fleet.VolumeParams{Format: fleet.Raw, SizeBytes: 4 << 20})))
	defineUnmanagedDomain(t, fileDiskXML(f.volumePath("theirs"), fleet.Raw))
	f.requireNoError(os.WriteFile(f.volumePath("theirs"), make([]byte, 4<<20), 0o600))
	seen := func(what string) (volumes []fleet.Volume, disks []fleet.DiskState) {
		t.Helper()
		f.requireNoError(f.ApplyPool(t.Context(), f.pool))
		s, err := f.HostState(t.Context(), hypervisor.Assignment{Assigned: hypervisor.Assigned{Pools: []fleet.Pool{f.pool}}})
		f.requireNoError(err)
		if len(s.Pools) != 1 || s.Pools[0].Status.State != fleet.PoolActive {
			t.Fatalf("%s: the pool is %+v", what, s.Pools)
		}
		for _, v := range s.Pools[0].Status.Volumes {
			v.ModifiedAt, v.AllocBytes = nil, 0
			volumes = append(volumes, v)
		}
		for _, r := range s.VMs {
			if r.ID == vm.ID || r.ID == other.ID {
				for _, d := range r.Status.Disks {
					d.AllocBytes = 0
					disks = append(disks, d)
				}
			}
		}
		return volumes, disks
	}
	volumes, disks := seen("before")
	if len(volumes) != 6 || len(disks) != 3 {
		t.Fatalf("unexpected volumes %+v or disks %+v", volumes, disks)
	}
	size := int64(4 << 20)
	r := rand.New(rand.NewPCG(uint64(tier.Seed()), 0))
	for what, text := range guestBytes(t, f.volumePath("image"), r) {
		for _, name := range []string{"plain.raw", "shared.img", "left.raw", "theirs"} {
			overwriteBeginning(t, f.volumePath(name), text)
		}
		if v, d := seen(what); !reflect.DeepEqual(v, volumes) || !reflect.DeepEqual(d, disks) {
			t.Errorf("%s: the host reports\n%+v\n%+v, before\n%+v\n%+v", what, v, d, volumes, disks)
		}
		size += 1 << 20
		grown := other
		grown.Generation, grown.Spec.Disks = size, []fleet.Disk{f.newDisk("other.qcow2")}
		grown.Spec.Disks[0].SizeBytes = 8<<20 + size
		for act, err := range map[string]error{
			"grow a volume":              f.GrowVolume(t.Context(), f.volumeJob("image", fleet.VolumeParams{SizeBytes: size})),
			"grow the disk of another":   f.ApplyVM(t.Context(), applyJob(grown, f.pool)),
			"rename a volume":            f.RenameVolume(t.Context(), f.volumeJob("renamed", fleet.VolumeParams{Source: "image"})),
			"grow a deleted VM's disk":   f.GrowVolume(t.Context(), f.volumeJob("left.raw", fleet.VolumeParams{SizeBytes: size})),
			"rename a deleted VM's disk": f.RenameVolume(t.Context(), f.volumeJob("lies.raw", fleet.VolumeParams{Source: "left.raw"})),
			"wipe a deleted VM's disk":   f.WipeVolume(t.Context(), f.volumeJob("lies.raw", fleet.VolumeParams{})),
		} {
			if err != nil {
				t.Errorf("%s: %s: %v", what, act, err)
			}
		}
		f.requireNoError(f.RenameVolume(t.Context(), f.volumeJob("image", fleet.VolumeParams{Source: "renamed"})))
		f.requireNoError(f.RenameVolume(t.Context(), f.volumeJob("left.raw", fleet.VolumeParams{Source: "lies.raw"})))
		for _, name := range []string{"plain.raw", "shared.img", "left.raw", "theirs"} {
			overwriteBeginning(t, f.volumePath(name), make([]byte, 64<<10))
		}
		volumes, disks = seen(what + ", zeroed")
	}
	f.requireNoError(f.DeleteVolume(t.Context(), f.volumeJob("image", fleet.VolumeParams{})))
}

// A raw disk that looks like another format is no source of an image. The error does not suggest a program that would
// probe the format.
func TestRawDiskWithFormatHeaderRefusedAsImageSource(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.requireNoError(f.CreateVolume(t.Context(), f.volumeJob("guest.raw", fleet.VolumeParams{Format: fleet.Raw, SizeBytes: 4 << 20})))
	addImage(t, f.pool, conformance.Image{Name: "secret", Kind: conformance.Qcow2, SizeBytes: 4 << 20})
	guestWrites(t, f.pool, "guest.raw", "secret")
	f.requireNoError(f.ApplyPool(t.Context(), f.pool))
	flat := f.volumeJob("flat.qcow2", fleet.VolumeParams{Source: "guest.raw", SourcePool: f.pool.ID, Flatten: true})
	flat.SourcePool = &f.pool
	flat.RecordChecksums = func(...hypervisor.VolumeChecksum) error { return nil }
	copied := f.volumeJob("copied.raw", fleet.VolumeParams{Source: "guest.raw"})
	copied.RecordChecksums = flat.RecordChecksums
	read := f.volumeJob("guest.raw", fleet.VolumeParams{})
	read.RecordChecksums = flat.RecordChecksums
	for act, err := range map[string]error{
		"flatten": f.CopyVolume(t.Context(), flat),
		"copy":    f.CopyVolume(t.Context(), copied),
		"hash":    f.HashVolume(t.Context(), read),
	} {
		if fleet.CodeOf(err) != fleet.Conflict || strings.Contains(err.Error(), "qemu-img") {
			t.Errorf("%s: %v", act, err)
		}
	}
	for _, name := range []string{"flat.qcow2", "copied.raw"} {
		if _, err := os.Lstat(f.volumePath(name)); !os.IsNotExist(err) {
			t.Errorf("%s was created: %v", name, err)
		}
	}
}
