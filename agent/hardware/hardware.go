// Package hardware discovers a host's hardware: processors, memory, disks, NICs, GPUs.
package hardware

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/jaypipes/ghw"
	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/mem"

	"quantix/internal/fleet"
)

// Read discovers this machine's hardware. Values that the platform does not report stay empty.
func Read(ctx context.Context) (fleet.Inventory, error) { return readInventoryBelow(ctx, "/") }

// readInventoryBelow reads the machine whose /sys, /proc and /etc are below root.
func readInventoryBelow(ctx context.Context, root string) (fleet.Inventory, error) {
	here := hostTree(root)
	ctx = here.withPaths(ctx)
	name, err := os.Hostname()
	if err != nil {
		return fleet.Inventory{}, fmt.Errorf("read the host's name: %w", err)
	}
	out := fleet.Inventory{
		Hostname: name, OS: here.osName(ctx), Machine: here.vendorAndProduct(),
		HugePages: here.hugePages(), NUMA: here.numaNodes(), NICs: here.nics(), Disks: here.disks(), GPUs: here.gpus(), Devices: here.devices(),
	}
	// These values differ by platform. A value that cannot be read is no error.
	out.Arch, _ = host.KernelArch()
	out.Kernel, _ = host.KernelVersionWithContext(ctx)
	out.HostUUID, out.BootID = here.readLine("sys/class/dmi/id/product_uuid"), here.readLine("proc/sys/kernel/random/boot_id")
	if out.HostUUID == "" {
		out.HostUUID, _ = host.HostIDWithContext(ctx)
	}
	out.HostUUID = strings.ToLower(out.HostUUID)
	if at, err := host.BootTimeWithContext(ctx); err == nil && at > 0 {
		booted := time.Unix(int64(at), 0).UTC()
		out.BootedAt = &booted
		out.BootID = cmp.Or(out.BootID, booted.Format(time.RFC3339))
	}
	if m, err := mem.VirtualMemoryWithContext(ctx); err == nil {
		out.MemoryBytes = int64(m.Total)
	}
	out.CPU = readCPU(ctx, here)
	return out, ctx.Err()
}

// readCPU counts sockets, cores and threads by the topology if the platform reports it, else by the scheduler's
// CPUs.
func readCPU(ctx context.Context, here hostTree) fleet.CPU {
	out := fleet.CPU{Sockets: 1, Threads: runtime.NumCPU(), Cores: runtime.NumCPU()}
	if all, err := cpu.InfoWithContext(ctx); err == nil && len(all) > 0 {
		out.Model, out.Vendor, out.Features = all[0].ModelName, all[0].VendorID, all[0].Flags
	}
	info, err := ghw.CPU(ghw.WithChroot(string(here)), ghw.WithDisableTopology(), ghw.WithDisableWarnings(), ghw.WithDisableTools())
	if err != nil || info.TotalHardwareThreads == 0 {
		return out
	}
	out.Threads, out.Cores, out.Sockets = int(info.TotalHardwareThreads), int(info.TotalCores), max(1, len(info.Processors))
	return out
}

// Memory returns the machine's available and total memory in bytes.
func Memory(ctx context.Context) (available, total int64, err error) {
	m, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		return 0, 0, err
	}
	return int64(m.Available), int64(m.Total), nil
}
