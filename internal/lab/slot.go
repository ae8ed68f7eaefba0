//go:build linux

package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// slots is the maximum number of lab hosts on one machine, across all programs.
const slots = 50

// slotDir holds one locked file for each lab host of the machine. An unlocked file belongs to a dead host.
const slotDir = "/run/quantix-lab"

// slot is a number that identifies a host in names that all hosts of the machine share: names of its bridge, subnet and
// cgroup. The lock on file reserves the number. The supervisor holds the lock, too, so the number becomes free only
// when both program and supervisor have ended.
type slot struct {
	number int
	file   *os.File
}

func (s *slot) bridge() string { return "qxlab" + strconv.Itoa(s.number) }
func (s *slot) cgroup() string { return "quantix-lab-" + strconv.Itoa(s.number) }
func (s *slot) subnet() string { return fmt.Sprintf("192.168.%d.", 200+s.number) }

// migrationPorts returns the qemu.conf settings of the ports for incoming migrations. All hosts of the machine would
// share libvirt's default range, which outgoing connections also use. Such a connection could take a port between
// libvirt's check of the port and QEMU's bind.
func (s *slot) migrationPorts() string {
	const first, each = 20_000, 16
	from := first + each*s.number
	return fmt.Sprintf("migration_port_min = %d\nmigration_port_max = %d\n", from, from+each-1)
}

// networkXML returns the definition of the host's NAT network.
func (s *slot) networkXML() string {
	var mac [3]byte
	var uuid [16]byte
	rand.Read(mac[:])
	rand.Read(uuid[:])
	return fmt.Sprintf(`<network>
  <name>default</name>
  <uuid>%s</uuid>
  <forward mode='nat'/>
  <bridge name='%s' stp='on' delay='0'/>
  <mac address='52:54:00:%02x:%02x:%02x'/>
  <ip address='%[6]s1' netmask='255.255.255.0'>
    <dhcp><range start='%[6]s2' end='%[6]s254'/></dhcp>
  </ip>
</network>
`, formatUUID(hex.EncodeToString(uuid[:])), s.bridge(), mac[0], mac[1], mac[2], s.subnet())
}

// takeSlot reserves the first free slot from number first on, for the host in dir. Before that, it removes remains of
// dead hosts from the machine.
func takeSlot(ctx context.Context, first int, dir string, log *slog.Logger) (*slot, error) {
	lock, err := lockSlots(ctx)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	removeDeadHosts(log)
	if err := refuseSecondHost(dir); err != nil {
		return nil, err
	}
	if countHosts() == 0 {
		if err := recordNetworkState(log); err != nil {
			return nil, err
		}
	}
	for i := range slots {
		s := &slot{number: (max(first, 0) + i) % slots}
		if s.isTaken() {
			continue
		}
		if s.file, err = os.OpenFile(s.path(), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return nil, err
		}
		err = syscall.Flock(int(s.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			_, err = s.file.WriteString(dir + "\n")
			return s, err
		}
		s.file.Close()
	}
	return nil, fmt.Errorf("%d lab hosts run on this machine, which is the maximum: stop some of them", slots)
}

// isTaken reports whether another host or another network on the machine uses the slot's number.
func (s *slot) isTaken() bool {
	if fileExists(s.path()) {
		return true // this file belongs to a live host, because removeDeadHosts has removed the files of dead hosts
	}
	if fileExists("/sys/class/net/" + s.bridge()) {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // if the use is unknown, the number counts as taken
	}
	for _, a := range addrs {
		if strings.HasPrefix(a.String(), s.subnet()) {
			return true
		}
	}
	return false
}

// release removes everything that the host in dir left on the machine. With the last host, it also removes slotDir.
func (s *slot) release(dir string, log *slog.Logger) error {
	lock, err := lockSlots(context.Background())
	if err != nil {
		return err
	}
	defer lock.Close()
	defer s.file.Close()
	err = errors.Join(s.removeRemains(append(remainingBridges(dir), s.bridge()), log), removeOrphanedFilters(log))
	if rerr := os.Remove(s.path()); err == nil {
		err = rerr
	}
	if countHosts() == 0 {
		err = errors.Join(err, restoreNetworkState(log), os.RemoveAll(slotDir))
	}
	return err
}

func (s *slot) path() string { return filepath.Join(slotDir, "host-"+strconv.Itoa(s.number)) }

// countHosts counts the machine's lab hosts, including dead hosts that removeDeadHosts has not removed yet.
func countHosts() int {
	files, _ := filepath.Glob(filepath.Join(slotDir, "host-*")) // Glob fails only for a malformed pattern
	return len(files)
}

// refuseSecondHost returns an error if a host already runs in dir.
func refuseSecondHost(dir string) error {
	files, _ := filepath.Glob(filepath.Join(slotDir, "host-*"))
	for _, file := range files {
		if owner, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(owner)) == dir {
			return fmt.Errorf("a lab host already runs in %s: stop it, or choose another directory", dir)
		}
	}
	return nil
}

// removeDeadHosts removes the remains of hosts whose program and supervisor were both killed.
func removeDeadHosts(log *slog.Logger) {
	if err := removeOrphanedFilters(log); err != nil {
		log.Warn("Network filters of guests that are gone cannot be removed.", "error", err)
	}
	for n := range slots {
		s := &slot{number: n}
		file, err := os.OpenFile(s.path(), os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			if err := s.removeRemains([]string{s.bridge()}, log); err != nil {
				log.Warn("The remains of a dead lab host cannot be removed.", "bridge", s.bridge(), "error", err)
			} else {
				os.Remove(s.path()) // if this fails, the next removeDeadHosts retries
			}
		}
		file.Close()
	}
}

// lockSlots waits for the lock on slotDir. Closing the file releases the lock.
func lockSlots(ctx context.Context) (*os.File, error) {
	name := filepath.Join(slotDir, "lock")
	for {
		if err := os.MkdirAll(slotDir, 0o700); err != nil {
			return nil, err
		}
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, os.ErrNotExist) {
			continue // the last host has just removed slotDir
		}
		if err != nil {
			return nil, err
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			if held, err := file.Stat(); err == nil {
				if now, err := os.Stat(name); err == nil && os.SameFile(held, now) {
					return file, nil
				}
			}
		}
		file.Close()
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for other lab hosts to start or stop: %w", ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}
