package blockdev

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// sampleHostTree is a file tree with one disk of each kind; "->" is a link.
const sampleHostTree = `
dev/disk/by-id/ata-FREE_1 -> ../../sda
dev/disk/by-id/wwn-0x5000 -> ../../sda
dev/disk/by-id/ata-ROOT_2 -> ../../sdb
dev/disk/by-id/ata-ROOT_2-part1 -> ../../sdb1
dev/disk/by-id/ata-RAID_3 -> ../../sdc
dev/disk/by-id/ata-SWAP_4 -> ../../sdd
dev/disk/by-id/ata-DVD_5 -> ../../sr0
dev/disk/by-id/ata-EMPTY_6 -> ../../sde
dev/disk/by-id/ata-LOCKED_7 -> ../../sdf
dev/disk/by-id/ata-BTRFS_8 -> ../../sdg
dev/disk/by-id/dm-name-vg-root -> ../../dm-0
dev/disk/by-id/lvm-pv-uuid-a -> ../../sda
dev/disk/by-id/md-name-x -> ../../md0
dev/disk/by-id/a;id -> ../../sda
dev/disk/by-id/-rf -> ../../sda
sys/class/block/sda/size: 2048
sys/class/block/sda/dev: 8:0
sys/class/block/sdb/size: 2048
sys/class/block/sdb/dev: 8:16
sys/class/block/sdb/sdb1/partition: 1
sys/class/block/sdb/sdb1/dev: 8:17
sys/class/block/sdb1/partition: 1
sys/class/block/sdb1/size: 1024
sys/class/block/sdc/size: 2048
sys/class/block/sdc/sdc1/partition: 1
sys/class/block/sdc/sdc1/holders/md0 -> ../../md0
sys/class/block/sdd/size: 2048
sys/class/block/sdd/sdd2/partition: 2
sys/class/block/sr0/size: 2048
sys/class/block/sde/size: 0
sys/class/block/sdf/size: 2048
sys/class/block/sdf/ro: 1
sys/class/block/sdg/size: 2048
sys/class/block/sdg/dev: 8:96
sys/class/block/dm-0/size: 2048
sys/class/block/md0/size: 2048
proc/self/mountinfo: 22 1 8:17 / / rw - ext4 /dev/root rw
23 1 0:30 / /srv rw - btrfs /dev/sdg rw
proc/swaps: Filename	Type	Size
/dev/sdd2 partition 1024`

func TestHostDisksAreListedWithUsage(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name string, do func(path string) error) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := do(path); err != nil {
			t.Fatal(err)
		}
	}
	var name, text string
	flush := func() {
		if name != "" {
			write(name, func(path string) error { return os.WriteFile(path, []byte(text), 0o600) })
		}
		name = ""
	}
	for _, line := range strings.Split(sampleHostTree, "\n")[1:] {
		if link, to, ok := strings.Cut(line, " -> "); ok {
			flush()
			write(link, func(path string) error { return os.Symlink(to, path) })
		} else if file, first, ok := strings.Cut(line, ": "); ok && strings.Contains(file, "/") {
			flush()
			name, text = file, first+"\n"
		} else {
			text += line + "\n"
		}
	}
	flush()
	want := []Device{
		{Name: "ata-BTRFS_8", Kernel: "sdg", SizeBytes: 1 << 20, Busy: "mounted at /srv"},
		{Name: "ata-FREE_1", Kernel: "sda", SizeBytes: 1 << 20},
		{Name: "ata-LOCKED_7", Kernel: "sdf", SizeBytes: 1 << 20, Busy: "read-only"},
		{Name: "ata-RAID_3", Kernel: "sdc", SizeBytes: 1 << 20, Busy: "a part of md0 (RAID, LVM, multipath or encryption)"},
		{Name: "ata-ROOT_2", Kernel: "sdb", SizeBytes: 1 << 20, Busy: "mounted at /"},
		{Name: "ata-SWAP_4", Kernel: "sdd", SizeBytes: 1 << 20, Busy: "swapped to"},
	}
	if got := ListDisks(root); !reflect.DeepEqual(got, want) {
		t.Errorf("the disks are\n%+v, want\n%+v", got, want)
	}
	if d, ok := FindDisk(root, "wwn-0x5000"); !ok || d.Kernel != "sda" {
		t.Errorf("by its other name: %+v, %t", d, ok)
	}
	for _, name := range []string{"", "none", "../../../etc/passwd", "ata-ROOT_2-part1", "dm-name-vg-root", "a;id", "-rf", "ata-DVD_5", "ata-EMPTY_6"} {
		if d, ok := FindDisk(root, name); ok {
			t.Errorf("%q is %+v", name, d)
		}
	}
	if _, err := IsUsedByKernel(filepath.Join(root, "proc/swaps")); err == nil {
		t.Error("a file is a block device")
	}
}
