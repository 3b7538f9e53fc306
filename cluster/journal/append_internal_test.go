package journal

import "testing"

// The part of a line that a full disk left is no record's neighbour.
func TestAppendAfterATornAppend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	if err := j.Append(Record{Event: Begin, Step: "one"}); err != nil {
		t.Fatal(err)
	}
	if _, err := j.file.WriteAt([]byte(`{"seq":2,"event":"en`), j.whole); err != nil {
		t.Fatal(err)
	}
	if err := j.Append(Record{Event: End, Step: "one"}); err != nil {
		t.Fatal(err)
	}
	got, err := Read(dir)
	if err != nil || len(got) != 2 || !got.Done("one") {
		t.Fatalf("%d records, %v", len(got), err)
	}
}
