package kit

import "testing"

func TestFormErrorsFoundByFieldPath(t *testing.T) {
	t.Parallel()
	e := Errors{Fields: map[string]string{"name": "Enter a name."}}
	if !e.Any() || e.At("name") != "Enter a name." || e.At("cpus") != "" {
		t.Errorf("%+v", e)
	}
	if !(Errors{Form: "Not possible."}).Any() || (Errors{}).Any() {
		t.Error("Any misses the form's own error, or reports an error for none")
	}
}
