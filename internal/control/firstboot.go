package control

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"

	"quantix/db"
	"quantix/internal/auth"
	"quantix/internal/control/macs"
	"quantix/internal/control/store"
	"quantix/internal/firstboot"
	"quantix/internal/fleet"
	"quantix/internal/policy"
	"quantix/internal/wire"
)

// FirstBootInput is the first-boot data for a VM: its content, or a customization spec with values for its variables.
type FirstBootInput struct {
	// If Kind is empty, the customization spec is used; without a customization spec, the first-boot data is removed.
	Kind            fleet.FirstBootKind   `json:"kind,omitempty"`
	CloudInit       *fleet.CloudInitForm  `json:"cloudInit,omitempty"`
	UserData        string                `json:"userData,omitempty"`
	NetworkConfig   string                `json:"networkConfig,omitempty"`
	CustomizationID fleet.CustomizationID `json:"customizationId,omitempty"`
	Variables       map[string]string     `json:"variables,omitempty"` // values of {{var.…}}
	// Again requests that the guest runs the stored first-boot data again at its next start. The fields above are then
	// ignored.
	Again bool `json:"again,omitempty"`
	// IfGeneration is the expected generation of the VM; 0 means that the generation is not checked.
	IfGeneration int64 `json:"ifGeneration,omitempty"`
}

func (in FirstBootInput) content() fleet.FirstBoot {
	return fleet.FirstBoot{Kind: in.Kind, CloudInit: in.CloudInit, UserData: in.UserData, NetworkConfig: in.NetworkConfig}.WithoutBOM()
}

// sealedFirstBoot is the content before encryption: the first-boot data rendered for the VM, and the VM's name at that
// time.
type sealedFirstBoot struct {
	fleet.FirstBoot
	Name string `json:"name"`
}

// secretSealer encrypts stored input with a key that the database does not have.
type secretSealer struct{ vault auth.Vault }

func (s secretSealer) sealJSON(label string, v any) (key string, sealed []byte, err error) {
	return store.SealJSON(s.vault, label, "first-boot data", v)
}

func (s secretSealer) openJSON(label, key string, sealed []byte, into any) error {
	return store.OpenJSON(s.vault, label, "first-boot data", key, sealed, into)
}

// firstBootLabel binds the encrypted first-boot data to one VM: it cannot be decrypted for another VM's row.
func firstBootLabel(id fleet.VMID) string { return "first boot of VM " + string(id) }

// firstBootContent returns the checked first-boot data from the input or from the customization spec. Placeholders for
// the VM's values are not yet replaced.
func (s secretSealer) firstBootContent(ctx context.Context, q *db.Queries, a fleet.Actor, project fleet.ProjectID, in FirstBootInput) (fleet.FirstBoot, error) {
	var checks fleet.Checks
	firstboot.CheckVariables(&checks, "firstBoot.variables", in.Variables)
	out := in.content()
	if in.CustomizationID != "" {
		if in.Kind != "" {
			checks.Add("firstBoot.customizationId", "Enter first-boot data or choose a customization spec, not both.")
			return out, checks.Err()
		}
		storedBoot, err := s.openCustomization(ctx, q, a, project, in.CustomizationID)
		if err != nil {
			return out, err
		}
		return storedBoot, checks.Err()
	}
	firstboot.Check(&checks, "firstBoot", out, true)
	return out, checks.Err()
}

// newFirstBoot returns the first-boot data of a new VM; nil: none. It also sets the kind in the VM's spec, so that
// placement chooses a host whose agent supports the kind.
func (s secretSealer) newFirstBoot(ctx context.Context, q *db.Queries, a fleet.Actor, in *CreateVM) (*fleet.FirstBoot, error) {
	if in.FirstBoot == nil {
		return nil, nil
	}
	boot, err := s.firstBootContent(ctx, q, a, in.ProjectID, *in.FirstBoot)
	if err != nil {
		return nil, err
	}
	in.Spec.FirstBoot = fleet.VMFirstBoot{Kind: boot.Kind, Number: 1}
	return &boot, nil
}

// renderFirstBoot checks the first-boot data and replaces its placeholders by the VM's values. The VM's NICs must
// already have their MAC addresses.
func renderFirstBoot(ctx context.Context, q *db.Queries, f fleet.FirstBoot, vm fleet.VM, project string, own map[string]string) (sealedFirstBoot, error) {
	mac, ip, err := firstBootNIC(ctx, q, vm.Spec.NICs)
	if err != nil {
		return sealedFirstBoot{}, err
	}
	f, err = firstboot.FillVariables(f, firstboot.VariableValues{VM: firstboot.BuiltInVariables(vm.ID, vm.Name, project, mac, ip), User: own})
	if err != nil {
		return sealedFirstBoot{}, prefixErrorFields(err, "firstBoot.")
	}
	var checks fleet.Checks
	if form := f.CloudInit; form != nil {
		networks := append([]fleet.FirstBootNIC(nil), form.Network...)
		for i := range networks {
			if i >= len(vm.Spec.NICs) {
				checks.Add("firstBoot.cloudInit.network", "The network settings have more NICs than the VM. Add a NIC to the VM, or remove the last network settings.")
				break
			}
			networks[i].MAC = vm.Spec.NICs[i].MAC
		}
		filled := *form
		if filled.Network = networks; filled.Hostname == "" {
			filled.Hostname = vm.Name
		}
		f.CloudInit = &filled
	}
	firstboot.Check(&checks, "firstBoot", f, false)
	if err := checks.Err(); err != nil {
		return sealedFirstBoot{}, err
	}
	f, err = firstboot.HashPasswords(f)
	return sealedFirstBoot{f, vm.Name}, err
}

// prefixErrorFields returns err with prefix added to its field names.
func prefixErrorFields(err error, prefix string) error {
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok {
		return err
	}
	out := *e
	out.Fields = append([]fleet.FieldError(nil), e.Fields...)
	for i := range out.Fields {
		out.Fields[i].Field = prefix + out.Fields[i].Field
	}
	return &out
}

// firstBootNIC returns the MAC address of the VM's first NIC, and the IPv4 address reserved for it.
func firstBootNIC(ctx context.Context, q *db.Queries, nics []fleet.NIC) (mac, ip string, err error) {
	if len(nics) == 0 {
		return "", "", nil
	}
	mac = nics[0].MAC
	if nics[0].NetworkID == "" {
		return mac, "", nil
	}
	rows, err := q.NetworkSpecs(ctx, []string{string(nics[0].NetworkID)})
	if err != nil {
		return "", "", err
	}
	for _, row := range rows {
		if row.Spec == nil || row.Spec.IPv4 == nil || row.Spec.IPv4.DHCP == nil {
			continue
		}
		for _, l := range row.Spec.IPv4.DHCP.Leases {
			if strings.EqualFold(l.MAC, mac) {
				ip = l.IP
			}
		}
	}
	return mac, ip, nil
}

func (s secretSealer) storeFirstBoot(ctx context.Context, q *db.Queries, a fleet.Actor, vm fleet.VM, storedBoot sealedFirstBoot) error {
	key, sealed, err := s.sealJSON(firstBootLabel(vm.ID), storedBoot)
	if err != nil {
		return err
	}
	return q.SetFirstBoot(ctx, db.SetFirstBootParams{VMID: vm.ID, Number: int64(vm.Spec.FirstBoot.Number), ByKey: key, Sealed: sealed, SetBy: a.Name})
}

func (s secretSealer) loadFirstBoot(ctx context.Context, q *db.Queries, id fleet.VMID) (sealedFirstBoot, db.FirstBoot, error) {
	var out sealedFirstBoot
	row, err := q.GetFirstBoot(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return out, row, fleet.Errorf(fleet.NotFound, "The VM has no first boot configuration.")
	}
	if err != nil {
		return out, row, store.UserError(err)
	}
	return out, row, s.openJSON(firstBootLabel(id), row.ByKey, row.Sealed, &out)
}

// applyFirstBootEdit deletes the first-boot data if an edit of the complete spec removes it. It refuses any other
// change of first-boot data.
func applyFirstBootEdit(ctx context.Context, q *db.Queries, old, vm fleet.VM) error {
	switch vm.Spec.FirstBoot {
	case old.Spec.FirstBoot:
		return nil
	case fleet.VMFirstBoot{}:
		return q.DropFirstBoot(ctx, vm.ID)
	}
	var checks fleet.Checks
	checks.Add("spec.firstBoot", "First-boot data is separate from the VM's other values. Change it separately.")
	return checks.Err()
}

// SetFirstBoot sets the first-boot data for the VM's next start. Input without a Kind and without a customization spec
// removes the data. No response, job or audit line contains the data.
func (c *Control) SetFirstBoot(ctx context.Context, a fleet.Actor, id fleet.VMID, in FirstBootInput) (fleet.VMView, fleet.TaskID, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return fleet.VMView{}, "", err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return fleet.VMView{}, "", err
	}
	var vm fleet.VMView
	var job fleet.TaskID
	s := secretSealer{c.opts.Vault}
	err := c.store.Tx(ctx, func(q *db.Queries) error {
		job = ""
		old, err := store.LockVM(ctx, q, a, id, policy.VMChange)
		if err != nil {
			return err
		}
		if in.IfGeneration != 0 && in.IfGeneration != old.Generation {
			return store.ChangedMeanwhileError("VM", old.Generation, in.IfGeneration)
		}
		if ok, why := old.Allows(fleet.ActEdit); !ok {
			return fleet.RefusalError(why)
		}
		vm = old
		if in.Kind == "" && in.CustomizationID == "" && !in.Again {
			if vm.Spec.FirstBoot = (fleet.VMFirstBoot{}); old.Spec.FirstBoot.Kind == "" {
				return nil
			}
			if err := q.DropFirstBoot(ctx, id); err != nil {
				return err
			}
		} else if err := s.setFirstBoot(ctx, q, a, &vm, in); err != nil {
			return err
		}
		edit := vmEdit{old: old, vm: &vm, enteredNICs: vm.Spec.NICs}
		if err := edit.check(ctx, q, a, macs.Prefix(c.opts.MACPrefix)); err != nil {
			return err
		}
		vm, job, err = applyVMChange(ctx, q, a, vmChange{vm: vm, action: "vm.firstboot", detail: describeChanges(old.Diff(vm.VM))})
		return err
	})
	if err != nil {
		return fleet.VMView{}, "", err
	}
	vm, err = c.shownVM(ctx, a, vm, nil)
	return vm, job, err
}

// setFirstBoot stores the input as the VM's next first-boot data.
func (s secretSealer) setFirstBoot(ctx context.Context, q *db.Queries, a fleet.Actor, vm *fleet.VMView, in FirstBootInput) error {
	number := vm.Spec.FirstBoot.Number
	had, _, err := s.loadFirstBoot(ctx, q, vm.ID)
	if err != nil && (in.Again || fleet.CodeOf(err) != fleet.NotFound && fleet.CodeOf(err) != fleet.Conflict) {
		return err
	}
	storedBoot := had
	if !in.Again {
		in.copyUnchangedPasswords(had.FirstBoot)
		from, err := s.firstBootContent(ctx, q, a, vm.ProjectID, in)
		if err != nil {
			return err
		}
		if storedBoot, err = renderFirstBoot(ctx, q, from, vm.VM, vm.ProjectName, in.Variables); err != nil {
			return err
		}
	}
	vm.Spec.FirstBoot = fleet.VMFirstBoot{Kind: storedBoot.Kind, Number: number + 1}
	return s.storeFirstBoot(ctx, q, a, vm.VM, storedBoot)
}

// copyUnchangedPasswords copies the passwords that the input leaves unchanged from the stored data.
func (in *FirstBootInput) copyUnchangedPasswords(stored fleet.FirstBoot) {
	in.CloudInit = in.content().WithUnchangedPasswords(stored).CloudInit
}

// FirstBoot returns the VM's first-boot data without passwords, for people who may change the VM.
func (c *Control) FirstBoot(ctx context.Context, a fleet.Actor, id fleet.VMID) (FirstBootDetails, error) {
	if err := policy.Check(a, policy.VMChange, ""); err != nil {
		return FirstBootDetails{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return FirstBootDetails{}, err
	}
	vm, err := store.GetVM(ctx, c.store.Queries, a, id)
	if err != nil {
		return FirstBootDetails{}, err
	}
	if err := policy.Check(a, policy.VMChange, vm.ProjectID); err != nil {
		return FirstBootDetails{}, err
	}
	storedBoot, row, err := secretSealer{c.opts.Vault}.loadFirstBoot(ctx, c.store.Queries, id)
	if err != nil {
		return FirstBootDetails{}, err
	}
	return FirstBootDetails{VMFirstBoot: vm.Spec.FirstBoot, Content: storedBoot.FirstBoot.WithoutPasswordHashes(), SetAt: row.SetAt, SetBy: row.SetBy}, nil
}

// FirstBootForHost returns the complete first-boot data to the VM's own host; all other callers are refused.
func (c *Control) FirstBootForHost(ctx context.Context, a fleet.Actor, id fleet.VMID, in wire.FirstBootRequest) (wire.FirstBoot, error) {
	if err := policy.Check(a, policy.ActAsAgent, ""); err != nil {
		return wire.FirstBoot{}, err
	}
	if err := store.CheckID(id, "VM"); err != nil {
		return wire.FirstBoot{}, err
	}
	row, err := c.store.FirstBootFor(ctx, db.FirstBootForParams{VMID: id, HostID: a.HostID})
	if errors.Is(err, pgx.ErrNoRows) {
		return wire.FirstBoot{}, fleet.Errorf(fleet.NotFound, "This host has no first-boot data to fetch for this VM.")
	}
	if err != nil {
		return wire.FirstBoot{}, store.UserError(err)
	}
	if now := (fleet.VMFirstBoot{Kind: fleet.FirstBootKind(row.Kind), Number: int(row.Number)}); now != in.FirstBoot {
		return wire.FirstBoot{}, fleet.Errorf(fleet.Conflict, "The VM's first-boot data has changed since this job was assigned. The next job has the new data.")
	}
	var storedBoot sealedFirstBoot
	if err := (secretSealer{c.opts.Vault}).openJSON(firstBootLabel(id), row.ByKey, row.Sealed, &storedBoot); err != nil {
		return wire.FirstBoot{}, err
	}
	files, err := firstboot.RenderFiles(storedBoot.FirstBoot, firstboot.GuestInstance{ID: id, Name: storedBoot.Name, Number: int(row.Number)})
	return wire.FirstBoot{Files: files}, err
}

// storedTaskInput is user input stored until its task has run. The input is encrypted if it contains first-boot data,
// because that may contain secrets.
type storedTaskInput struct {
	Plain  json.RawMessage `json:"plain,omitempty"`
	Key    string          `json:"key,omitempty"`
	Sealed []byte          `json:"sealed,omitempty"`
}

// encodeInput encodes v as JSON, encrypted if secret is set. Encrypted input can be decrypted only with the same label,
// which identifies its row.
func (s secretSealer) encodeInput(label string, v any, secret bool) (out []byte, err error) {
	var k storedTaskInput
	if secret {
		k.Key, k.Sealed, err = s.sealJSON(label, v)
	} else {
		k.Plain, err = json.Marshal(v)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(k)
}

// decodeInput decodes the output of encodeInput.
func (s secretSealer) decodeInput(label string, text []byte, into any) error {
	var k storedTaskInput
	if err := json.Unmarshal(text, &k); err != nil {
		return err
	}
	if len(k.Sealed) > 0 {
		return s.openJSON(label, k.Key, k.Sealed, into)
	}
	return json.Unmarshal(k.Plain, into)
}
