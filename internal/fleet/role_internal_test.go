package fleet

import (
	"slices"
	"testing"
)

func TestPermissionsContainEveryReferencedPermission(t *testing.T) {
	t.Parallel()
	for _, r := range resourceTypes {
		if !slices.Contains(Permissions, r.See) {
			t.Errorf("resource type %s: permission %q is not in Permissions", r.Key, r.See)
		}
	}
	for _, name := range JobKindsWhere(func(JobKindInfo) bool { return true }) {
		if p := name.Info().Permission; !slices.Contains(Permissions, p) {
			t.Errorf("job kind %s: permission %q is not in Permissions", name, p)
		}
	}
	for _, r := range Roles {
		for _, g := range []*Grant{r.Fleet, r.Project} {
			if g == nil {
				continue
			}
			for _, p := range g.Permissions {
				if !slices.Contains(Permissions, p) {
					t.Errorf("role %q: permission %q is not in Permissions", r.Role, p)
				}
			}
		}
	}
}

func TestUnknownRoleGrantsNothing(t *testing.T) {
	t.Parallel()
	info := Role("stranger").Info()
	for _, p := range Permissions {
		if info.Fleet.Has(p) || info.Project.Has(p) {
			t.Errorf("an unknown role grants %q", p)
		}
	}
}
