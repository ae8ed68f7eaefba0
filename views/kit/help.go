package kit

import (
	"strings"

	"github.com/a-h/templ"

	"quantix/views"
)

// Topic is a heading of the manual: "storage#create-a-pool". A test checks that every topic exists.
type Topic string

// Topics of the forms.
const (
	HelpHostLabels    Topic = "hosts#label-hosts"
	HelpHostPlacement Topic = "hosts#keep-new-vms-away-from-a-host"
	HelpHostCapacity  Topic = "hosts#capacity-of-a-host"
	HelpHostReports   Topic = "hosts#reports-of-a-host"
	HelpDiagnostics   Topic = "host-commands#run-diagnostics"
	HelpAgentLog      Topic = "host-commands#agent-log"
	HelpRestartAgent  Topic = "host-commands#restart-the-agent"
	HelpCluster       Topic = "hosts#clusters"
	HelpAlarmRule     Topic = "alarms#alarm-rules"
	HelpChannel       Topic = "alarms#notifications"
	HelpAlarm         Topic = "alarms#acknowledge-and-silence"
	HelpAdopt         Topic = "hosts#adopt-pools-and-networks"
	HelpPool          Topic = "storage#create-a-pool"
	HelpAssign        Topic = "storage#assign-a-pool-to-more-hosts-release-it"
	HelpImage         Topic = "images#add-an-image"
	HelpNetwork       Topic = "networks#modes"
	HelpAddresses     Topic = "networks#addresses"
	HelpNetworkHosts  Topic = "networks#create-a-network"
	HelpPortGroup     Topic = "networks#port-groups"
	HelpSecurityGroup Topic = "networks#security-groups"
	HelpVM            Topic = "virtual-machines#create-a-vm"
	HelpVMPresets     Topic = "virtual-machines#presets"
	HelpBulkCreate    Topic = "virtual-machines#number-of-vms"
	HelpVMCPU         Topic = "virtual-machines#cpu"
	HelpVMMemory      Topic = "virtual-machines#memory"
	HelpVMBoot        Topic = "virtual-machines#boot"
	HelpVMDisplay     Topic = "virtual-machines#display-and-input"
	HelpVMSecurity    Topic = "virtual-machines#security"
	HelpVMDevices     Topic = "virtual-machines#other-devices"
	HelpVMPower       Topic = "virtual-machines#start-and-stop"
	HelpVMMigration   Topic = "virtual-machines#migration"
	HelpVMDisks       Topic = "virtual-machines#disks"
	HelpVMNICs        Topic = "virtual-machines#nics"
	HelpVMRules       Topic = "virtual-machines#placement-rules"
	HelpVMHealth      Topic = "virtual-machines#health-checks"
	HelpVMEdit        Topic = "virtual-machines#change-a-vm"
	HelpMigrate       Topic = "migration#move-a-vm-to-another-host"
	HelpAgentUpgrade  Topic = "host-commands#upgrade-agents"
	HelpMaintenance   Topic = "migration#enter-maintenance"
	HelpBMC           Topic = "host-commands#power-through-a-bmc"
	HelpTerminate     Topic = "host-commands#terminate-a-host"
	HelpMoveDisk      Topic = "virtual-machines#move-a-disk-to-another-pool"
	HelpProtection    Topic = "virtual-machines#protect-lock-and-expire"
	HelpSnapshots     Topic = "snapshots#take-a-snapshot"
	HelpSchedules     Topic = "snapshots#schedules"
	HelpFirstBoot     Topic = "first-boot#give-a-user-a-key-and-a-static-address"
	HelpCustomization Topic = "first-boot#customization-specs"
	HelpImport        Topic = "import-export#import-an-ova-archive-or-a-foreign-disk"
	HelpRoles         Topic = "tenants#roles"
	HelpFlavor        Topic = "tenants#flavors"
	HelpDeviceClass   Topic = "hosts#device-classes"
	HelpProjectRules  Topic = "tenants#rules-for-new-vms"
	HelpProject       Topic = "tenants#create-a-project-for-a-tenant"
	HelpQuota         Topic = "tenants#quotas"
	HelpRecycleBin    Topic = "virtual-machines#recycle-bin"
	HelpRenewal       Topic = "virtual-machines#expiry-and-renewal"
	HelpRequests      Topic = "tenants#requests"

	HelpHealthChecks     Topic = "health-policies#health-checks"
	HelpHealthConditions Topic = "health-policies#events-and-conditions"
	HelpApproval         Topic = "tenants#approval-of-new-vms"
	HelpPublishing       Topic = "tenants#publish-pools-and-networks"
	HelpPolicy           Topic = "health-policies#policies"
	HelpPolicyActs       Topic = "health-policies#what-a-policy-does-and-undoes"
	HelpPolicyExpression Topic = "health-policies#write-an-expression"
)

func (t Topic) path() templ.SafeURL {
	chapter, anchor, _ := strings.Cut(string(t), "#")
	return templ.SafeURL(views.HelpPath(chapter, anchor))
}
