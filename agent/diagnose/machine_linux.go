package diagnose

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"quantix/internal/fleet"
)

// MachineItems are the items about this machine and its kernel.
func MachineItems() []Item {
	return []Item{
		{"kernel", "Kernel and operating system", readFiles("/proc/version", "/etc/os-release", "/proc/cmdline", "/proc/uptime", "/proc/loadavg", "/proc/sys/kernel/tainted", "/proc/modules")},
		{"kernel-log", "Kernel log", readKernelLog},
		{"cpu-memory", "CPU, memory and pressure", readFiles("/proc/meminfo", "/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io", "/proc/vmstat", "/proc/stat", "/proc/cpuinfo")},
		{"block-devices", "Block devices", sequence(
			optional("lsblk", "--output", "NAME,TYPE,SIZE,FSTYPE,MOUNTPOINT,MODEL,SERIAL,STATE,RO,ROTA"), readFiles("/proc/partitions", "/proc/diskstats", "/proc/mdstat"))},
		{"mounts", "Mounts and free space", readMounts},
		{"nics", "NICs and addresses", sequence(readNICs, optional("ip", "-details", "-statistics", "link"), readFiles("/proc/net/dev"))},
		{"routes", "Routes and name servers", sequence(
			optional("ip", "route", "show", "table", "all"), optional("ip", "-6", "route", "show", "table", "all"), optional("ip", "rule"),
			readFiles("/proc/net/route", "/etc/resolv.conf", "/etc/hosts"))},
		{"time", "Time synchronization", sequence(readClock, readFiles("/sys/devices/system/clocksource/clocksource0/current_clocksource"), optional("chronyc", "-n", "tracking"), optional("timedatectl", "status", "--no-pager"))},
		{"cgroup", "Control groups", readCgroups},
		{"libvirt-journal", "Journal of libvirt and the agent", Command("journalctl", "--no-pager", "--quiet", "--lines=2000", "--output=short-iso",
			"-u", "libvirtd", "-u", "virtqemud", "-u", "virtstoraged", "-u", "virtnetworkd", "-u", "virtnwfilterd", "-u", "virtproxyd", "-u", "virtlogd", "-u", "quantix-agent")},
		{"smart", "SMART health of disks", readSMART},
	}
}

// sequence reads parts after each other. A part that fails does not end the others.
func sequence(parts ...func(context.Context, io.Writer) error) func(context.Context, io.Writer) error {
	return func(ctx context.Context, to io.Writer) error {
		var errs []error
		for _, read := range parts {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			errs = append(errs, read(ctx, to))
		}
		return errors.Join(errs...)
	}
}

// optional runs a command under a heading. Its absence and its failure are part of the text.
func optional(name string, args ...string) func(context.Context, io.Writer) error {
	return func(ctx context.Context, to io.Writer) error {
		fmt.Fprintf(to, "# %s %s\n", name, strings.Join(args, " "))
		if err := Command(name, args...)(ctx, to); err != nil {
			fmt.Fprintf(to, "(%s)\n", err)
		}
		_, err := io.WriteString(to, "\n")
		return err
	}
}

// readFiles returns the Read of an item that consists of files of the kernel or the system, each under a heading. A missing
// file is part of the text.
func readFiles(paths ...string) func(context.Context, io.Writer) error {
	return func(_ context.Context, to io.Writer) error {
		for _, path := range paths {
			if err := readFile(to, path); err != nil {
				return err
			}
		}
		return nil
	}
}

func readFile(to io.Writer, path string) error {
	fmt.Fprintf(to, "# %s\n", path)
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = errors.New("does not exist")
		}
		_, werr := fmt.Fprintf(to, "(%s)\n\n", err)
		return werr
	}
	defer f.Close()
	if _, err := io.Copy(to, f); errors.Is(err, errFull) {
		return err
	}
	_, err = io.WriteString(to, "\n")
	return err
}

// kernelLogBytes is how much of the end of the kernel's log is read.
const kernelLogBytes = 512 << 10

// readKernelLog reads the end of the kernel's log, as dmesg does.
func readKernelLog(_ context.Context, to io.Writer) error {
	const readAll = 3 // SYSLOG_ACTION_READ_ALL
	buf := make([]byte, kernelLogBytes)
	n, err := syscall.Klogctl(readAll, buf)
	if err != nil {
		return fmt.Errorf("read the kernel's log: %w", err)
	}
	_, err = to.Write(buf[:n])
	return err
}

// readMounts lists the mounts, then the free space of each. A mount that hangs leaves the others in the list.
func readMounts(ctx context.Context, to io.Writer) error {
	if err := readFile(to, "/proc/self/mountinfo"); err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	fmt.Fprintln(to, "# Free space")
	lines := bufio.NewScanner(strings.NewReader(string(text)))
	for lines.Scan() && ctx.Err() == nil {
		f := strings.Fields(lines.Text())
		if len(f) < 3 {
			continue
		}
		at := unescapeMount(f[1])
		fmt.Fprintf(to, "%s (%s): ", at, f[2])
		var s syscall.Statfs_t
		if err := syscall.Statfs(at, &s); err != nil {
			fmt.Fprintf(to, "(%s)\n", err)
			continue
		}
		size := int64(s.Bsize) //nolint:unconvert // other types on other platforms
		fmt.Fprintf(to, "%s free of %s, %d of %d inodes free\n", fleet.FormatBytes(int64(s.Bavail)*size), fleet.FormatBytes(int64(s.Blocks)*size), s.Ffree, s.Files)
	}
	return ctx.Err()
}

// unescapeMount decodes the octal escapes of /proc/self/mounts.
func unescapeMount(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	if out, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`); err == nil {
		return out
	}
	return text
}

func readNICs(_ context.Context, to io.Writer) error {
	all, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range all {
		addresses, err := i.Addrs()
		state := func(name string) string {
			text, _ := os.ReadFile(filepath.Join("/sys/class/net", i.Name, name))
			return strings.TrimSpace(string(text))
		}
		fmt.Fprintf(to, "%s: mtu %d, %s, state %s, speed %s, flags %s\n", i.Name, i.MTU, i.HardwareAddr, state("operstate"), state("speed"), i.Flags)
		for _, a := range addresses {
			fmt.Fprintf(to, "    %s\n", a)
		}
		if err != nil {
			fmt.Fprintf(to, "    (%s)\n", err)
		}
	}
	_, err = io.WriteString(to, "\n")
	return err
}

// readClock reads how well the kernel's clock is synchronized.
func readClock(_ context.Context, to io.Writer) error {
	const unsynchronized = 0x40 // STA_UNSYNC
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	if err != nil {
		return fmt.Errorf("read the kernel's clock: %w", err)
	}
	_, err = fmt.Fprintf(to, "Kernel clock: synchronized %t, state %d, status 0x%x, offset %d, estimated error %d µs, maximum error %d µs\n\n",
		int(t.Status)&unsynchronized == 0, state, t.Status, t.Offset, t.Esterror, t.Maxerror)
	return err
}

// readCgroups reads the control groups of the agent and of the guests.
func readCgroups(ctx context.Context, to io.Writer) error {
	if err := readFiles("/proc/self/cgroup", "/proc/cgroups", "/sys/fs/cgroup/cgroup.controllers", "/sys/fs/cgroup/cgroup.subtree_control")(ctx, to); err != nil {
		return err
	}
	for _, dir := range []string{"/sys/fs/cgroup/machine.slice", "/sys/fs/cgroup/machine", "/sys/fs/cgroup/system.slice/libvirtd.service"} {
		groups, _ := filepath.Glob(dir + "/*/memory.current")
		for _, file := range append([]string{dir + "/memory.current"}, groups...) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			text, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			group := filepath.Dir(file)
			limit, _ := os.ReadFile(group + "/memory.max")
			fmt.Fprintf(to, "%s: memory %s of %s\n", group, strings.TrimSpace(string(text)), strings.TrimSpace(string(limit)))
		}
	}
	return nil
}

// maxSMARTDisks is how many disks are asked for their health.
const maxSMARTDisks = 32

// readSMART reads the health of disks, and wakes none from standby.
func readSMART(ctx context.Context, to io.Writer) error {
	var list strings.Builder
	if err := Command("smartctl", "--scan")(ctx, &list); err != nil {
		return err
	}
	n := 0
	for line := range strings.Lines(list.String()) {
		device, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.HasPrefix(device, "/dev/") {
			continue
		}
		if n++; n > maxSMARTDisks || ctx.Err() != nil {
			break
		}
		if err := optional("smartctl", "--nocheck=standby", "--health", "--info", "--attributes", device)(ctx, to); err != nil {
			return err
		}
	}
	if n == 0 {
		return NotAvailableError{"smartctl finds no disk with SMART."}
	}
	return ctx.Err()
}
