# Sourced by sysroot.sh and foreign_root.sh.
# keep_root TREE FOLDER: copies a system root to its place in the cache. Links that name this machine's root, such as that of
# the dynamic linker, are made to stay inside. FOLDER/.done says that the copy is complete.
keep_root() {
  local tree=$1 folder=$2
  find "$tree" -type l -lname '/*' | while IFS= read -r link; do
    ln -sfn --relative "$tree$(readlink "$link")" "$link"
  done
  touch "$tree/.done"
  mkdir -p "$(dirname "$folder")"
  rm -rf "$folder"
  cp -a "$tree" "$folder"
}
