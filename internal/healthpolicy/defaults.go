package healthpolicy

import "quantix/internal/fleet"

// DefaultPolicy is a policy that ships with the product.
type DefaultPolicy struct {
	Builtin, Name string
	Spec          Spec
}

// Defaults are the policies that ship with the product. A policy that a user has changed or deleted is not added again.
func Defaults() []DefaultPolicy {
	return []DefaultPolicy{
		{"gpu-failed", "gpu-failed", Spec{
			Order: 10, Severity: fleet.AlarmCritical, Actions: Actions{Taint: "gpu-failed:NoExecute", Alarm: true},
			Description: "The GPU must be reset or replaced: it fell off the bus, has uncorrectable memory errors, or its firmware has stopped. VMs without a toleration for gpu-failed migrate to other hosts.",
			// NVIDIA's catalog of XID errors: those whose recovery is a reset of the GPU, a restart of the node or a replacement.
			Expression: `event.check == "gpu" && (event.code in ["gpu-lost", "gpu-remap-failed"] ||
  event.code.startsWith("xid-") && event.values.xid in [48, 57, 58, 62, 64, 74, 79, 95, 110, 119, 120, 140, 143, 151, 157, 158])`,
		}},
		{"disk-failing", "disk-failing", Spec{
			Order: 20, Severity: fleet.AlarmCritical, Actions: Actions{Cordon: true, Alarm: true},
			Description: "A disk says by SMART that it fails. No VM is placed on the host. Move data away and replace the disk.",
			Expression:  `event.check == "smart" && event.code == "smart-failing"`,
		}},
		{"memory-failing", "memory-failing", Spec{
			Order: 30, Severity: fleet.AlarmCritical, Actions: Actions{Cordon: true, Alarm: true},
			Description: "A memory module has errors that it could not correct. No VM is placed on the host. Replace the module.",
			Expression:  `event.check == "edac" && event.code == "memory-uncorrected"`,
		}},
		{"clock-off", "clock-off", Spec{
			Order: 40, Severity: fleet.AlarmWarning, Actions: Actions{Alarm: true}, Expression: `event.code == "clock-offset" && event.severity != "info"`,
			Description: "The host's clock differs from the portal's. Check its time synchronization.",
		}},
		{"certificate-ends", "certificate-ends", Spec{
			Order: 50, Severity: fleet.AlarmWarning, Actions: Actions{Alarm: true}, Expression: `event.check == "certificate" && event.severity != "info"`,
			Description: "The agent's certificate ends soon and was not renewed.",
		}},
		{"pool-failed", "pool-failed", Spec{
			Order: 60, Severity: fleet.AlarmWarning, Expression: `event.check == "pool" && event.code in ["pool-failed", "pool-stalled"]`,
			Description: "A storage pool has failed on the host. The alarm on the pool says what to do.",
		}},
		{"nic-errors", "nic-errors", Spec{
			Order: 70, Severity: fleet.AlarmWarning, Expression: `event.check == "nic" && event.severity != "info"`,
			Description: "A physical NIC has errors. Check its cable and its switch port.",
		}},
		{"temperature", "temperature-high", Spec{
			Order: 80, Severity: fleet.AlarmWarning, Expression: `event.code in ["disk-hot", "gpu-hot"]`,
			Description: "A disk or a GPU is hot. Check fans and air flow.",
		}},
	}
}
