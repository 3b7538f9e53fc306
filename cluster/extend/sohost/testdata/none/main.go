// A .so file that is no plugin of sealer.
package main
