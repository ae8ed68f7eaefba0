// Package vmspec has specs of VMs for tests.
package vmspec

import "quantix/internal/fleet"

// WithAllFields returns a spec with a non-default value in every optional field.
func WithAllFields() fleet.VMSpec {
	return fleet.VMSpec{
		CPU:      fleet.VMCPU{Model: "host-model", Sockets: 2, Cores: 3, Threads: 4, Max: 24, Features: "+aes", Shares: 512, Limit: 50, Reserved: 25, Pinned: "0-3"},
		Memory:   fleet.VMMemory{Shared: true, Locked: true, HugePageKiB: 2048, MaxMiB: 4096, Nodes: "0", BalloonMiB: 256, MinMiB: 128},
		Boot:     fleet.VMBoot{Menu: true, CDROM: 1, Kernel: &fleet.Volref{PoolID: "p", Volume: "vmlinuz"}, Initrd: &fleet.Volref{PoolID: "p", Volume: "initrd"}, Cmdline: "quiet", Machine: "pc"},
		Display:  fleet.VMDisplay{Video: "virtio", Heads: 2, Keyboard: "de", Pointer: "mouse", Sound: "ich9", Spice: true, USBRedirection: 2},
		Security: fleet.VMSecurity{TPM: true, SecureBoot: true, Confidential: "sev"},
		Devices:  fleet.VMDevices{Watchdog: "i6300esb", WatchdogAction: "pause", RNGRate: 1024, VSOCK: true, GuestAgent: "none", Balloon: "none", Serials: 2, Parallel: true},
		Drives:   []fleet.VMDrive{{Slot: "cdrom2", Medium: &fleet.Volref{PoolID: "p", Volume: "virtio.iso"}, BootOrder: 4}}, HostDevices: []fleet.VMHostDevice{{Device: "usb/046d:c52b"}},
		Shares:    []fleet.VMShare{{Tag: "src", Folder: fleet.Volref{PoolID: "p", Volume: "src"}}},
		Policy:    fleet.VMPolicy{Autostart: "on", StartOrder: 2, StartDelay: 30, Restart: "always", StopOrder: 3, StopDelay: 20, HAPriority: "high", GuestExec: true},
		Rules:     []fleet.PlacementRule{{Apart: true, Of: fleet.RuleVMLabels, Name: "tier=web"}},
		Health:    []fleet.HealthCheck{{Kind: fleet.HealthTCP, Port: 22}},
		Migration: fleet.VMMigration{Stays: true, LimitMiB: 100, PostCopy: true, DowntimeMs: 300}, Placement: fleet.VMPlacement{Tolerations: "gpu", Overcommit: true},
		FirstBoot: fleet.VMFirstBoot{Kind: fleet.Sysprep, Number: 2}, DeviceClasses: []fleet.VMDeviceClass{{ClassID: "01a20f00-0000-7000-8000-0000000000ab", Count: 2}},
		NUMA: []fleet.VMNUMANode{{CPUs: "0-3", MemoryMiB: 256}, {CPUs: "4-7", MemoryMiB: 256, Nodes: "0"}},
	}
}
