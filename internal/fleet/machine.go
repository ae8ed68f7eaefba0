package fleet

import "fmt"

// MachinePC is the i440fx machine type, without PCI Express, whose IDE disks old guests support.
const MachinePC = "pc"

// maxIDE is the number of devices on the two IDE channels of MachinePC.
const maxIDE = 4

// checkMachine adds an error for each device that the VM's machine type lacks.
func (s VMSpec) checkMachine(c *Checks, prefix string) {
	if s.Boot.Machine == MachinePC {
		s.checkPC(c, prefix)
		return
	}
	for i, d := range s.Disks {
		if d.Bus == "ide" {
			c.Add(fmt.Sprintf("%s.disks[%d].bus", prefix, i), "Only the machine pc has IDE. Choose it when the VM is made, or another bus, such as SATA.")
		}
	}
}

func (s VMSpec) checkPC(c *Checks, prefix string) {
	if s.Firmware == UEFI {
		c.Add(prefix+".firmware", "A pc machine starts by BIOS. Choose it, or the machine q35.")
	}
	if s.Security.SecureBoot {
		c.Add(prefix+".security.secureBoot", "A pc machine cannot keep the keys of secure boot from its guest. Choose the machine q35, or leave secure boot.")
	}
	if s.Security.Confidential != "" {
		c.Add(prefix+".security.confidential", "Memory is encrypted for the machine q35 alone. Choose it, or leave the encryption.")
	}
	if s.Devices.Watchdog == "itco" {
		c.Add(prefix+".devices.watchdog", "The iTCO watchdog is in q35's chipset alone. Choose the machine q35, or another watchdog.")
	}
	places := 1 // the first CD-ROM drive
	for i, d := range s.Drives {
		if !d.Floppy() {
			if places++; places > maxIDE {
				c.Add(fmt.Sprintf("%s.drives[%d].slot", prefix, i), "A pc machine has room for %d IDE devices, and its CD-ROM drives are some of them.", maxIDE)
			}
		}
	}
	for i, d := range s.Disks {
		at := fmt.Sprintf("%s.disks[%d].bus", prefix, i)
		switch d.Bus {
		case "ide":
			if places++; places > maxIDE {
				c.Add(at, "A pc machine has room for %d IDE devices, and its CD-ROM drives are some of them. Choose another bus, such as SATA.", maxIDE)
			}
		case "nvme":
			c.Add(at, "NVMe is at PCI Express, which a pc machine has not. Choose another bus.")
		}
	}
}
